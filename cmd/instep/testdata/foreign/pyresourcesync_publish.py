"""Publishes a directory with py-resourcesync, which leaves finding the resources to its user: SITE URL STRATEGY."""
import hashlib
import os
import sys

from resourcesync.core.generator import Generator
from resourcesync.parameters.enum import Strategy
from resourcesync.resourcesync import ResourceSync
from resync import Resource

site, url, strategy = sys.argv[1:]


class Files(Generator):
    def generate(self):
        found = []
        for where, dirs, names in os.walk(site):
            dirs[:] = sorted(d for d in dirs if d != "metadata")
            found += [self.resource(os.path.join(where, name)) for name in sorted(names)]
        return found

    def resource(self, path):
        with open(path, "rb") as file:
            body = file.read()
        return Resource(uri=url + os.path.relpath(path, site), timestamp=int(os.path.getmtime(path)), length=len(body),
                        md5=hashlib.md5(body).hexdigest(), mime_type="text/plain", path=path)


ResourceSync(generator=Files(), resource_dir=site, metadata_dir="metadata", url_prefix=url, strategy=Strategy[strategy].value,
             has_wellknown_at_root=False, is_saving_sitemaps=True).execute()
