package message_test

import (
	"strings"
	"testing"

	"agentstateloop/mail/message"
)

// TestSubjectsOfThread checks the changes that real programs make to the subject of an answer.
func TestSubjectsOfThread(t *testing.T) {
	for subject, answers := range map[string][]string{
		"status of the build": {
			"status of the build", "Re: status of the build", "RE: Status of the build", "AW: Re: status of the build", "Re[2]: status of the build",
			"RE(3): status of the build", "Re^2: status of the build", "Antw: status of the build", "SV: status of the build", "VS: status of the build",
			"R: status of the build", "RIF: status of the build", "RES: status of the build", "Odp: status of the build", "YNT: status of the build",
			"回复: status of the build", "答复：status of the build", "Re：status of the build", "НА: status of the build", "ΑΠ: status of the build",
			"[EXTERNAL] Re: status of the build", "RE: [EXT] status of the build", "Re: [External Email] AW: status of the build",
			"Re: status of\tthe  build", "Re: statusofthe build", "Re: status\u00a0of the\u200b build", " re :status of the build",
			"Re: Fwd: status of the build", "Re: [Fwd: status of the build]",
		},
		"Fwd: minutes":              {"Re: Fwd: minutes", "RE: minutes", "Re: FW: minutes"},
		"Re: Größe Ⅳ":               {"AW: GRÖẞE ⅳ", "Re: Gro\u0308ße IV", "re: größe iv"},
		strings.Repeat("long ", 90): {"RE: " + strings.Repeat("long ", 50), "Re: " + strings.Repeat("long ", 60)},
	} {
		id := agentIDs.Make("reply.t1", subject)
		for _, answer := range answers {
			if !agentIDs.OfThread(id, answer) {
				t.Errorf("%q does not answer %.50q", answer, subject)
			}
		}
	}
}

func TestForwarded(t *testing.T) {
	for _, s := range []string{"Fwd: x", "FW: x", "WG: Re: x", "TR : x", "[Fwd: x]", "x (fwd)", "转发：x", "[EXTERNAL] FW: x", "I: x", "RV: Re: x", "Fwd[2]: x"} {
		if !message.Forwarded(s) {
			t.Errorf("%q is not read as a forward", s)
		}
	}
	for _, s := range []string{"", "x", "Re: Fwd: x", "forward: x", "fwd x", "a fwd: x", "[Fwd x]", "Re: x", "fwdx: y", "(fwd) x"} {
		if message.Forwarded(s) {
			t.Errorf("%q is read as a forward", s)
		}
	}
}
