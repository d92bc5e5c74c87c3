package message

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
)

// labels are the charsets of encodingOf, one label each, and those that it does not know.
var labels = []string{
	"utf-8", "us-ascii", "utf-16", "utf-16le", "utf-16be", "iso-8859-1", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5", "iso-8859-6", "iso-8859-6-e", "iso-8859-6-i", "iso-8859-7",
	"iso-8859-8", "iso-8859-8-e", "iso-8859-8-i", "iso-8859-9", "iso-8859-10", "iso-8859-13", "iso-8859-14", "iso-8859-15", "iso-8859-16", "windows-874", "windows-1250",
	"windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1255", "windows-1256", "windows-1257", "windows-1258", "koi8-r",
	"koi8-u", "macintosh", "x-mac-cyrillic", "ibm037", "ibm437", "ibm850", "ibm852", "ibm855", "ibm00858", "ibm860", "ibm862", "ibm863", "ibm865",
	"ibm866", "ibm1047", "ibm01140", "x-user-defined", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr", "gb18030", "gbk", "hz-gb-2312", "big5",
	"iso-2022-kr", "utf-7", "utf-32", "unknown", "",
}

// pairBodies returns texts that tell charsets apart: every byte beyond ASCII between
// letters, also before and behind others, escape sequences, and an order in ASCII.
func pairBodies() [][]byte {
	bodies := [][]byte{
		[]byte("run ~{!! tests~} now"), []byte("+AGQAZQBs- all"), []byte("run \x1b$B%F%9%H\x1b(B now"), []byte("run \x1b(J now \\ ~"), []byte("\x0e\x24\x22\x0f a"),
		[]byte("run \x1b[31mred\x1b[0m now"), []byte("run the tests"), []byte("\xfe\xffr u n"), []byte("r\x00u\x00n\x00"), []byte("\x99\xa4\x95"),
	}
	for a := 0x80; a < 0x100; a++ {
		lead := string([]byte{byte(a)})
		bodies = append(bodies, []byte("do not "+lead+"x run "+lead+", or stop "+lead+"."))
		for _, b := range []byte("A\\\xa1\xfe")[a%2*2:][:2] {
			trail := string([]byte{b})
			bodies = append(bodies, []byte("do not "+lead+trail+" run "+trail+lead+lead+trail+" x"))
		}
	}
	return bodies
}

// TestCharsetsOfOneText tries each text in each pair of charsets. In two that both pass, a
// text has the same words in ASCII. In which two it can have other letters beyond
// ASCII is in the table of the decision.
func TestCharsetsOfOneText(t *testing.T) {
	confused, passed := map[string]map[string]bool{}, map[string]bool{}
	for _, label := range labels {
		confused[label] = map[string]bool{}
	}
	for _, body := range pairBodies() {
		type reading struct{ label, text string }
		var all []reading
		for _, label := range labels {
			raw := append([]byte("Content-Type: text/plain; charset=\""+label+"\"\nContent-Transfer-Encoding: 8bit\n\n"), body...)
			if SoleReading(raw, Sealed{}) == nil {
				all = append(all, reading{label, ContentOf(raw, Sent{}).Full})
				passed[label] = true
			}
		}
		for i, one := range all {
			for _, other := range all[i+1:] {
				if inASCII(one.text) != inASCII(other.text) {
					t.Fatalf("%q is %q in %s, and %q in %s", body, one.text, one.label, other.text, other.label)
				}
				if one.text != other.text {
					confused[one.label][other.label], confused[other.label][one.label] = true, true
				}
			}
		}
	}
	var alone, among []string
	for _, label := range labels {
		switch {
		case len(confused[label]) > 0:
			among = append(among, label)
		case passed[label] && label != "":
			alone = append(alone, label)
		}
	}
	const page = "../../docs/decisions/0062-ambiguous-mail-and-challenges.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range [][]string{alone, among} {
		if group := strings.Join(group, ", "); !strings.Contains(strings.Join(strings.Fields(string(text)), " "), ": "+group+".") {
			t.Errorf("%s does not have this group: %s.", page, group)
		}
	}
}

// TestLabelsAreComplete checks that labels has each encoding of encodingOf.
func TestLabelsAreComplete(t *testing.T) {
	source, err := os.ReadFile("charset.go")
	if err != nil {
		t.Fatal(err)
	}
	var known []encoding.Encoding
	for _, label := range labels {
		known = append(known, encodingOf(label))
	}
	for line := range strings.Lines(string(source)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, `"`) && !strings.HasPrefix(line, `case "`) {
			continue
		}
		for i, label := range strings.Split(line, `"`) {
			if e := encodingOf(label); i%2 == 1 && e != nil && !slices.Contains(known, e) {
				t.Errorf("labels has no charset of %s", label)
			}
		}
	}
}
