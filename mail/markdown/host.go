package markdown

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// hostOf returns the host that a reader sees in a word, in the form of the DNS, or "":
// "example.com", "https://example.com/a" and "ann@example.com" have one. A dot may be one
// of those that browsers take for it.
func hostOf(word string) string {
	host := authority(word)
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	if len(labels) < 2 || utf8.RuneCountInString(last) < minTopLevel || !strings.ContainsFunc(last, unicode.IsLetter) {
		return ""
	}
	for _, l := range labels {
		if l == "" || strings.ContainsFunc(l, func(r rune) bool {
			return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
		}) {
			return ""
		}
	}
	return strings.TrimPrefix(punycode(host), "www.")
}

// minTopLevel is how many characters the last label of a host has at least.
const minTopLevel = 2

// authority returns what may be a host in a word, as it is written.
func authority(word string) string {
	word = strings.Trim(dotted(word), `"'()<>[]{},;:!?.`)
	if _, rest, ok := strings.Cut(word, "://"); ok {
		word = rest
	}
	if i := strings.IndexAny(word, "/?#\\"); i >= 0 {
		word = word[:i]
	}
	word = word[strings.LastIndexByte(word, '@')+1:]
	if i := strings.LastIndexByte(word, ':'); i >= 0 {
		word = word[:i]
	}
	return word
}

// dotted returns s without characters that cannot be seen, and with ASCII dots in the place
// of the others that end a label of a host.
func dotted(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u3002' || r == '\uff0e' || r == '\uff61':
			return '.'
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// punycode returns a host as the DNS has it, in small letters.
func punycode(host string) string {
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		return ascii
	}
	if ascii, err := idna.Punycode.ToASCII(strings.ToLower(host)); err == nil {
		return ascii
	}
	return strings.ToLower(host)
}

// mixesScripts reports whether a host may be taken for another one: a label has letters of
// several scripts, or a script whose letters look like Latin ones stands under a Latin
// domain.
func mixesScripts(host string) bool {
	labels := strings.Split(dotted(host), ".")
	latin := scriptsOf(labels[len(labels)-1])["Latin"]
	for _, l := range labels {
		scripts := scriptsOf(l)
		for _, asian := range []string{"Han", "Hiragana", "Katakana", "Hangul", "Bopomofo"} {
			if scripts[asian] { // which are written with one another, and with Latin
				delete(scripts, asian)
				delete(scripts, "Latin")
			}
		}
		if len(scripts) > 1 || latin && (scripts["Cyrillic"] || scripts["Greek"] || scripts["Armenian"] || scripts["Cherokee"]) {
			return true
		}
	}
	return false
}

// scriptsOf returns the scripts of the letters in s.
func scriptsOf(s string) map[string]bool {
	scripts := map[string]bool{}
	for _, r := range s {
		if !unicode.IsLetter(r) {
			continue
		}
		for name, table := range unicode.Scripts {
			if unicode.Is(table, r) {
				scripts[name] = true
			}
		}
	}
	return scripts
}

// toASCII puts the host of u in the form of the DNS.
func toASCII(u *url.URL) {
	host, port := u.Hostname(), u.Port()
	if !strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
		return
	}
	u.Host = punycode(dotted(host))
	if port != "" {
		u.Host += ":" + port
	}
}

// withoutMixedHosts returns a text with each word that has a host of several scripts in
// the form of the DNS.
func withoutMixedHosts(text string) string {
	for word := range strings.FieldsSeq(text) {
		if host := authority(word); hostOf(word) != "" && mixesScripts(host) {
			text = strings.Replace(text, word, strings.Replace(dotted(word), host, punycode(host), 1), 1)
		}
	}
	return text
}

// inASCII returns an address with its host in the form of the DNS.
func inASCII(address string) string {
	host := authority(address)
	return strings.Replace(dotted(address), host, punycode(host), 1)
}
