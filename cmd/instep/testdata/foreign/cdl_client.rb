# Copies with CDL's client, a library that leaves keeping files to its user: BASE COPY baseline|changes.
require 'fileutils'
require 'rexml/document'

# Up to 3.2 REXML took a path like "/*/[…]", which means "/*/*[…]".
REXML::XPath.singleton_class.prepend(Module.new do
  def first(element, path = nil, *rest)
    super(element, path&.gsub('/*/[', '/*/*['), *rest)
  end
end)
require 'resync/client'

base, copy, what = ARGV
place = ->(resource) { File.join(copy, resource.uri.to_s.delete_prefix(base)) }
take = lambda do |resource|
  FileUtils.mkdir_p(File.dirname(place[resource]))
  resource.download_to_file(place[resource])
end

sets = Resync::Client.new.get_and_parse("#{base}.well-known/resourcesync")
capabilities = sets.resource_for(capability: 'capabilitylist').get_and_parse
if what == 'baseline'
  capabilities.resource_list.all_resources.each(&take)
else
  last = {}
  capabilities.change_list.all_changes.each { |change| last[change.uri] = change }
  last.each_value do |change|
    change.metadata.change == Resync::Types::Change::DELETED ? FileUtils.rm_f(place[change]) : take[change]
  end
end
