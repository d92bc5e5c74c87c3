package message

import "testing"

// TestKeyword reads the first word of a field in the syntax of RFC 2045 and RFC 5322.
func TestKeyword(t *testing.T) {
	for v, want := range map[string]string{
		"Auto-Generated":                      "auto-generated",
		"(cron) Auto-Generated; owner=root":   "auto-generated",
		"(a (nested) \\) one)auto-replied":    "auto-replied",
		"\t (x) (y) no (really) ; a=b":        "no",
		"no(comment)":                         "no",
		"no-reply":                            "no-reply",
		"no, auto-replied":                    "no,",
		"auto-notified; to=\"a;b\"":           "auto-notified",
		"5.1.1 (x)":                           "5.1.1",
		"(auto-generated":                     "",
		"bulk (unclosed":                      "bulk",
		"":                                    "",
		"(only)":                              "",
		"\"no\"":                              "no",
		"x\x01y":                              "x",
		"multipart/report (x); report-type=y": "multipart/report",
	} {
		if got := Keyword(v); got != want {
			t.Errorf("%q: %q, want %q", v, got, want)
		}
	}
}

// TestGateFields reads the fields of the gates with comments, folded, in any case, and several
// times.
func TestGateFields(t *testing.T) {
	for raw, want := range map[string]string{
		"Auto-Submitted: (cron) Auto-Generated; owner=root\n":             "auto",
		"AUTO-SUBMITTED:\n (a\n (nested))\n\tauto-replied\n":              "auto",
		"Auto-Submitted: no\nAuto-Submitted: (x) auto-replied\n":          "auto",
		"Auto-Submitted: auto-replied\nAuto-Submitted: no\n":              "auto",
		"Auto-Submitted: (unclosed auto-generated\n":                      "auto",
		"Auto-Submitted: (no)\n":                                          "auto",
		"Auto-Submitted: (x) No (by hand); a=b\n":                         "",
		"Auto-Submitted:\n":                                               "",
		"Precedence: (x) Bulk\n":                                          "list",
		"Precedence: bulk\nPrecedence: normal\n":                          "list",
		"Precedence: normal\nPrecedence: (y) LIST (z)\n":                  "list",
		"Precedence: (bulk) first-class\n":                                "",
		"Return-Path: (bounce) <(empty)>\n":                               "bounce",
		"Return-Path: <op@example.com>\nReturn-Path: < >\n":               "bounce",
		"Return-Path: \"<>\" <op@example.com>\n":                          "",
		"Return-Path: (<>) <op@example.com>\n":                            "",
		"Content-Type: (x) multipart/report; boundary=b\n":                "bounce",
		"Content-Type: multipart/report (x); boundary=b\n":                "bounce",
		"Content-Type: text/plain\nContent-Type: Multipart/Report; a=b\n": "bounce",
		"Content-Type: text/plain (multipart/report); charset=utf-8\n":    "",
	} {
		h := ParseHeader([]byte(raw))
		got := ""
		switch {
		case h.Automatic:
			got = "auto"
		case h.PrecedenceWord == "bulk" || h.PrecedenceWord == "list":
			got = "list"
		case h.ReturnPath == "<>" || h.MediaType == "multipart/report":
			got = "bounce"
		}
		if got != want {
			t.Errorf("%q: %q, want %q: %+v", raw, got, want, h)
		}
	}
}
