# Harvests a repository by HTTP::OAI, which follows its resumption tokens, and prints one
# line a record: harvest.pl BASE-URL VERB [NAME VALUE...]
use strict;
use warnings;
use HTTP::OAI;

my ($base, $verb, %args) = @ARGV;
my $harvester = HTTP::OAI::Harvester->new(baseURL => $base);
binmode STDOUT, ':utf8';

sub line {
	my $item = $_[0];
	my $header = $item->isa('HTTP::OAI::Header') ? $item : $item->header;
	my $metadata = $item->isa('HTTP::OAI::Record') && $item->metadata ? 'true' : 'false';
	print $header->identifier, ' ', $header->datestamp, ' [', join(' ', $header->setSpec), '] ',
		($header->is_deleted ? 'true' : 'false'), ' ', $metadata, "\n";
}

my $lists = $verb eq 'ListRecords' || $verb eq 'ListIdentifiers';
my $answer = $harvester->$verb(%args, $lists ? (onRecord => \&line) : ());
die "$verb: " . $answer->code . " " . $answer->message . "\n" if $answer->is_error && $answer->code ne 'noRecordsMatch';
exit if $lists;
if ($verb eq 'Identify') {
	print join(' ', $answer->repositoryName, '|', $answer->baseURL, $answer->deletedRecord, $answer->granularity, $answer->adminEmail), "\n";
	exit;
}
while (my $item = $answer->next) {
	if ($verb eq 'ListSets') {
		print $item->setSpec, "\n";
	} elsif ($verb eq 'ListMetadataFormats') {
		print $item->metadataPrefix, "\n";
	} else {
		line($item);
	}
}
