package mediatype

const types = `text/html html htm shtml
application/xhtml+xml xhtml xht
text/css css
text/javascript js mjs cjs
application/json json map
application/manifest+json webmanifest
application/wasm wasm
application/xml xml xsd rng
application/xslt+xml xsl xslt
application/xml-dtd dtd ent mod
application/atom+xml atom
application/rss+xml rss
application/opensearchdescription+xml osdx
application/warc warc
application/mets+xml mets
application/mods+xml mods
application/marcxml+xml mrcx
application/marc mrc
application/tei+xml tei teicorpus
application/rdf+xml rdf owl
application/ld+json jsonld
text/turtle ttl
application/n-triples nt
application/n-quads nq
application/trig trig
text/n3 n3
application/sparql-query rq
application/geo+json geojson
application/json-patch+json json-patch
application/vnd.google-earth.kml+xml kml
application/vnd.google-earth.kmz kmz
application/gpx+xml gpx
application/gml+xml gml
application/geopackage+sqlite3 gpkg
application/yaml yaml yml
application/toml toml
application/jsonl jsonl ndjson
application/sql sql
application/vnd.sqlite3 sqlite sqlite3
application/vnd.apache.parquet parquet
application/x-hdf5 h5 hdf5
application/netcdf nc
application/fits fits
application/dicom dcm
text/plain txt text log conf cfg ini diff patch asc
text/markdown md markdown
text/csv csv
text/tab-separated-values tsv tab
text/calendar ics ifb
text/vcard vcf vcard
text/vtt vtt
application/x-subrip srt
text/x-rst rst
text/asciidoc adoc asciidoc
application/x-tex tex ltx sty
application/x-bibtex bib
text/plain go c h cc cpp cxx hh hpp hxx cs java kt kts scala rb py pyi pl pm php phps lua r jl hs erl ex exs clj rs
text/plain swift dart zig nim s asm f f90 f95 pas ada adb ads lisp el scm tcl awk sed sh bash zsh fish ps1 bat cmd
text/plain tsx jsx vue proto thrift graphql mk cmake gradle in am ac y lex tmpl gitignore gitattributes sum
application/pdf pdf
application/postscript ps eps
application/rtf rtf
application/epub+zip epub
application/x-mobipocket-ebook mobi prc
image/vnd.djvu djvu djv
application/vnd.oasis.opendocument.text odt
application/vnd.oasis.opendocument.spreadsheet ods
application/vnd.oasis.opendocument.presentation odp
application/vnd.oasis.opendocument.graphics odg
application/vnd.oasis.opendocument.formula odf
application/msword doc dot
application/vnd.ms-excel xls xlt
application/vnd.ms-powerpoint ppt pps pot
application/vnd.ms-outlook msg
application/vnd.visio vsd
application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
application/vnd.openxmlformats-officedocument.wordprocessingml.template dotx
application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
application/vnd.openxmlformats-officedocument.spreadsheetml.template xltx
application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
application/vnd.openxmlformats-officedocument.presentationml.slideshow ppsx
message/rfc822 eml mime mht mhtml
application/mbox mbox
image/jpeg jpg jpeg jpe jfif
image/png png
image/gif gif
image/webp webp
image/avif avif
image/heic heic
image/heif heif
image/jxl jxl
image/svg+xml svg
image/tiff tif tiff
image/jp2 jp2 jpg2
image/jpx jpx jpf
image/bmp bmp dib
image/vnd.microsoft.icon ico
image/vnd.adobe.photoshop psd
image/x-adobe-dng dng
image/vnd.dxf dxf
model/gltf+json gltf
model/gltf-binary glb
model/stl stl
model/mtl mtl
audio/mpeg mp3 mp2 mpga
audio/mp4 m4a m4b
audio/aac aac
audio/flac flac
audio/ogg oga ogg opus spx
audio/wav wav
audio/aiff aif aiff aifc
audio/midi mid midi
audio/x-ms-wma wma
video/mp4 mp4 m4v mp4v
video/mpeg mpg mpeg mpe m1v m2v
video/webm webm
video/ogg ogv
video/quicktime mov qt
video/matroska mkv
video/x-msvideo avi
video/x-ms-wmv wmv
video/x-flv flv
video/3gpp 3gp
application/mxf mxf
application/vnd.apple.mpegurl m3u8
application/dash+xml mpd
application/zip zip
application/gzip gz tgz
application/x-bzip2 bz2 tbz2
application/x-xz xz txz
application/zstd zst
application/x-7z-compressed 7z
application/vnd.rar rar
application/x-tar tar
application/java-archive jar
application/x-iso9660-image iso
application/vnd.debian.binary-package deb
application/x-rpm rpm
font/woff woff
font/woff2 woff2
font/ttf ttf
font/otf otf
font/collection ttc
application/pgp-signature sig
application/pgp-keys pgp
application/pkix-cert cer
application/x-pem-file pem`
