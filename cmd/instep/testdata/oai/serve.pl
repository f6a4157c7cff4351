# An OAI-PMH repository by Dancer::Plugin::Catmandu::OAI: serve.pl PORT N. Record i of N has
# the datestamp of the second i of 2024-05-01, is in the set even or odd, and is deleted if
# 10 divides i.
use strict;
use warnings;

package Repository::Bag;
use Moo;
use Catmandu::Hits;
with 'Catmandu::Bag';
with 'Catmandu::CQLSearchable';

has rows => (is => 'lazy');

sub _build_rows {
	[map {
		{ _id => $_, datestamp => sprintf('2024-05-01T%02d:%02d:%02dZ', $_ / 3600, $_ / 60 % 60, $_ % 60),
		  set => $_ % 2 ? 'odd' : 'even', deleted => $_ % 10 == 0 ? 1 : 0, title => "Title $_ & more" }
	} 1 .. $main::count];
}

sub generator { my $rows = $_[0]->rows; my $i = 0; sub { $rows->[$i++] } }
sub get { $_[0]->rows->[$_[1] - 1] }
sub add { die }
sub delete { die }
sub delete_all { die }
sub delete_by_query { die }
sub searcher { die }
sub translate_sru_sortkeys { undef }
sub translate_cql_query { $_[1] }

# search knows the queries of the plugin.
sub search {
	my ($self, %args) = @_;
	my $query = $args{query} || '';
	my ($from) = $query =~ /datestamp >= "([^"]*)"/;
	my ($until) = $query =~ /datestamp <= "([^"]*)"/;
	my ($set) = $query =~ /set exact (\w+)/;
	my ($id) = $query =~ /_id exact "([^"]*)"/;
	my @found = grep {
		(!defined $from || $_->{datestamp} ge $from) && (!defined $until || $_->{datestamp} le $until)
			&& (!defined $set || $_->{set} eq $set) && (!defined $id || $_->{_id} eq $id)
	} @{$self->rows};
	my ($start, $limit) = ($args{start} || 0, $args{limit} || 10);
	my $end = $start + $limit > @found ? $#found : $start + $limit - 1;
	Catmandu::Hits->new(start => $start, limit => $limit, total => scalar @found, hits => [@found[$start .. $end]]);
}

package Repository;
use Moo;
with 'Catmandu::Store';
sub bag { Repository::Bag->new(store => $_[0], name => 'data') }

package main;
use Catmandu;
use Dancer;
use Dancer::Plugin::Catmandu::OAI;
our ($port, $count);
BEGIN { ($port, $count) = splice @ARGV, 0, 2 }

Catmandu->config->{store}{default} = {package => '+Repository'};
$INC{'Repository.pm'} = __FILE__;
set server => '127.0.0.1';
set port => $port;
set logger => 'null';
set charset => 'UTF-8';

oai_provider '/oai',
	store => 'default', bag => 'data', datestamp_field => 'datestamp', repositoryName => 'Another repository',
	repositoryIdentifier => 'example.org', deletedRecord => 'persistent', adminEmail => 'admin@example.org',
	earliestDatestamp => '2024-05-01T00:00:01Z', delimiter => ':', sampleIdentifier => 'oai:example.org:1', limit => 100,
	sets => [map { {setSpec => $_, setName => $_, cql => "set exact $_"} } qw(even odd)],
	metadata_formats => [{
		metadataPrefix => 'oai_dc', schema => 'http://www.openarchives.org/OAI/2.0/oai_dc.xsd',
		metadataNamespace => 'http://www.openarchives.org/OAI/2.0/oai_dc/',
		template => \'<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>[% title | xml %]</dc:title></oai_dc:dc>',
	}],
	deleted => sub { $_[0]->{deleted} }, set_specs_for => sub { [$_[0]->{set}] };

dance;
