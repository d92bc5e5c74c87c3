package manual

import "testing"

// TestPage checks the whole text of a page, with characters that have a meaning in roff and that a
// printer would replace.
func TestPage(t *testing.T) {
	p := New("a-b", 1, `say "it"`, Footer{"2026-11-28", "v0.1.0"})
	p.Heading("SYNOPSIS")
	p.Usage("a b", "[flags]")
	p.Usage("a c", "")
	p.Heading("DESCRIPTION")
	p.Text(".first\n'second C:\\ don't `~^` …\n\nnext\n\nExamples:\n  a --b\n\n  a -c\nlast")
	p.Subheading(`it's "-"`)
	p.Item("--wait", "[=POINT]", ".wait")
	p.Text("after")
	p.SeeAlso("a(1)", "b(5)")
	const want = `.TH "A\-B" 1 "2026-11-28" "agentStateLoop v0.1.0" "agentStateLoop manual"
.nh
.ad l
.SH "NAME"
a\-b \- say "it"
.SH "SYNOPSIS"
\fBa b\fR [flags]
.br
\fBa c\fR
.SH "DESCRIPTION"
\&.first
\&\(aqsecond C:\e don\(aqt \(ga\(ti\(ha\(ga \[u2026]
.P
next
.P
Examples:
.P
.RS 4
.EX
a \-\-b

a \-c
.EE
.RE
.P
last
.SS "it\(aqs \(dq\-\(dq"
.TP
\fB\-\-wait\fR[=POINT]
\&.wait
.P
after
.SH "SEE ALSO"
.BR a (1),
.BR b (5)
`
	if got := p.String(); got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if p.File() != "man1/a-b.1" {
		t.Errorf("its file is %s", p.File())
	}
}

// TestSettings checks a section of each kind of line in the example configuration.
func TestSettings(t *testing.T) {
	p := New("x", 5, "y", Footer{})
	before := len(p.String())
	p.Settings(`# Begins.
#
# "~" is home.

[agent]
handle   = "a # b"                 # the handle
# keep = "9\"0d"                   # older
                                   # goes on
# bare = 1

# Without it, leave out [mesh].
# [mesh."a-b"]                     # of it
# a = { b = "c" }
#                                  # later
`)
	const want = `.P
Begins.
.P
"\(ti" is home.
.SS "[agent]"
.TP
\fBhandle\fR = "a # b"
the handle
.TP
\fB# keep\fR = "9\e"0d"
older
goes on
.TP
\fB# bare\fR = 1
.SS "[mesh.\(dqa\-b\(dq]"
Without it, leave out [mesh].
of it
.TP
\fB# a\fR = { b = "c" }
later
`
	if got := p.String()[before:]; got != want {
		t.Errorf("the sections are\n%s\nwant\n%s", got, want)
	}
}
