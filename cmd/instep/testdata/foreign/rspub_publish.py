"""Publishes a directory with rspub-core: SITE URL STRATEGY."""
import sys

from rspub.core.rs import ResourceSync
from rspub.core.rs_enum import Strategy

site, url, strategy = sys.argv[1:]
ResourceSync(resource_dir=site, metadata_dir="metadata", url_prefix=url, strategy=Strategy[strategy],
             has_wellknown_at_root=False).execute([site])
