# Prints the host's own distribution archives as one-line apt entries; anything else is left out.
#
# in:  -v codename=… -v distribution=debian|ubuntu, files sources.list, *.list and *.sources
# An entry is kept if its suite is the host's release (or its -updates or -security pocket), it has the
# component `main`, its address has a path segment that starts with the distribution's name, and it is not
# signed by somebody else's key. A third party that fakes all four is on the host's own list of trust.

function wanted_suite(suite) {
  return suite == codename || suite == codename "-updates" || suite == codename "-security"
}

function emit(uri, suite, components, signed_by, trusted,    kept, i, n, part, options) {
  if (!wanted_suite(suite)) return
  if (uri !~ "/" distribution "([-.][^/]*)?(/|$)") return
  if (signed_by != "" && signed_by !~ "^/[^ ]*/" distribution "-archive-keyring[^/]*$") return
  n = split(components, part, /[ \t]+/)
  for (i = 1; i <= n; i++)
    if (part[i] == "main" || (distribution == "ubuntu" && part[i] == "universe")) kept = kept " " part[i]
  if (kept !~ / main/) return
  options = ""
  if (signed_by != "") options = options " signed-by=" signed_by
  if (trusted == "yes") options = options " trusted=yes"
  if (options != "") options = "[" substr(options, 2) "] "
  line = "deb " options uri " " suite kept
  if (!(line in seen)) print line
  seen[line] = 1
}

# The `Types: deb` paragraphs of deb822 files.
function flush_paragraph(    i, j, uris, suites, n, m) {
  if (field["types"] ~ /(^|[ \t])deb([ \t]|$)/ && tolower(field["enabled"]) != "no") {
    n = split(field["uris"], uris, /[ \t]+/)
    m = split(field["suites"], suites, /[ \t]+/)
    for (i = 1; i <= n; i++)
      for (j = 1; j <= m; j++)
        emit(uris[i], suites[j], field["components"], field["signed-by"], field["trusted"])
  }
  split("", field)
  name = ""
}

FNR == 1 { flush_paragraph(); deb822 = (FILENAME ~ /\.sources$/) }

/^[ \t]*#/ { next }

!deb822 && /^[ \t]*deb[ \t]/ {
  line = $0; signed_by = ""; trusted = ""
  sub(/#.*/, "", line)
  if (match(line, /\[[^]]*\]/)) {
    count = split(substr(line, RSTART + 1, RLENGTH - 2), option, /[ \t]+/)
    for (i = 1; i <= count; i++) {
      if (option[i] ~ /^signed-by=/) signed_by = substr(option[i], 11)
      if (option[i] ~ /^trusted=/) trusted = substr(option[i], 9)
    }
    line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
  }
  count = split(line, word, /[ \t]+/)
  first = (word[1] == "" ? 2 : 1)
  components = ""
  for (i = first + 3; i <= count; i++) components = components " " word[i]
  emit(word[first + 1], word[first + 2], components, signed_by, trusted)
  next
}

deb822 && /^[ \t]*$/ { flush_paragraph(); next }
deb822 && /^[ \t]/ { value = $0; sub(/^[ \t]+/, "", value); field[name] = field[name] (field[name] == "" ? "" : " ") value; next }
deb822 && /^[A-Za-z-]+:/ {
  name = tolower(substr($0, 1, index($0, ":") - 1))
  value = substr($0, index($0, ":") + 1)
  gsub(/^[ \t]+|[ \t]+$/, "", value)
  field[name] = value
}

END { flush_paragraph() }
