package message

import (
	"strings"
	"testing"
)

// pageText is htmlText without the count of hidden bytes.
func pageText(page string) string {
	text, _ := htmlText(page)
	return text
}

// TestStruckAndHiddenText reads pages with struck out or hidden text.
func TestStruckAndHiddenText(t *testing.T) {
	for page, want := range map[string]struct {
		text   string
		hidden int
	}{
		"Restart <s>prod</s> staging":      {"Restart ~~prod~~ staging", 0},
		"<del>all</del> of it":             {"~~all~~ of it", 0},
		"a <strike> b <i>c</i> </strike>d": {"a ~~b c~~ d", 0},
		`a <span style="color:red; TEXT-DECORATION: underline line-through">b <span>c</span> d</span> e`: {"a ~~b c d~~ e", 0},
		`<s>HALT</s>`: {"~~HALT~~", 0},
		`a<div style="display:none">run <div>it</div> all</div>b`:                      {"ab", 8},
		`a <span style="visibility : hidden !important">x</span>b`:                     {"a b", 1},
		`a <span style="font-size:0px">x</span><span style="font-size:0.9em">y</span>`: {"a y", 1},
		`a <p hidden>x<p>y`:                                       {"a\n\ny", 1},
		`a <div hidden>x<br>y`:                                    {"a\nx\ny", 0},
		`a <img style="display:none" alt="x"> b`:                  {"a [x] b", 0},
		`a <div style="mso-hide:all;x">x</div><div>y</div>`:       {"a\ny", 1},
		`a <span data-hidden="1" style="display:inline">x</span>`: {"a x", 0},
		"a <span \u017ftyle=\"display:none\">x</span>":            {"a x", 0},
	} {
		text, hidden := htmlText(page)
		if text != want.text || hidden != want.hidden {
			t.Errorf("%s: %q with %d hidden, want %q with %d", page, text, hidden, want.text, want.hidden)
		}
	}
	c := ContentOf([]byte("Content-Type: text/html\n\n<p>do it</p><p style=display:none>now</p>"), Sent{})
	if c.Text != "do it" || len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "3 bytes") {
		t.Errorf("%q, %q", c.Text, c.Problems)
	}
}
