package markdown

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// hostOf returns the host that a reader sees in a word, in the form of the DNS, or "". It finds
// one in "example.com", "https://example.com/a" and "ann@example.com". Every character that
// browsers treat as a dot counts as one.
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

// minTopLevel is the minimum number of characters in the last label of a host.
const minTopLevel = 2

// authority returns the part of a word that may be a host, as written.
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

// dotted returns s without invisible characters, and with an ASCII dot for every character that
// ends a label of a host.
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

// punycode returns a host in the form of the DNS, in lower case.
func punycode(host string) string {
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		return ascii
	}
	if ascii, err := idna.Punycode.ToASCII(strings.ToLower(host)); err == nil {
		return ascii
	}
	return strings.ToLower(host)
}

// mixesScripts reports whether a host may be mistaken for another one: a label mixes the
// letters of several scripts, or a Latin domain has a label in a script whose letters look
// Latin.
func mixesScripts(host string) bool {
	labels := strings.Split(dotted(host), ".")
	latin := scriptsOf(labels[len(labels)-1])["Latin"]
	for _, l := range labels {
		scripts := scriptsOf(l)
		for _, asian := range []string{"Han", "Hiragana", "Katakana", "Hangul", "Bopomofo"} {
			if scripts[asian] { // scripts that are mixed with one another, and with Latin
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

// toASCII converts the host of u to the form of the DNS.
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

// withoutMixedHosts returns a text with each host that mixes scripts in the form of the DNS.
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
