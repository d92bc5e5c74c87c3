package doctor

import (
	"fmt"
	"strings"
	"testing"

	"agentstateloop/mail/trust"
)

// TestProviderFindings checks the findings about providers that sign in different ways.
func TestProviderFindings(t *testing.T) {
	signing := func(signed, added, unsigned string) trust.Trial {
		return trust.Trial{Signing: &trust.Signing{Signed: strings.Fields(signed), Added: strings.Fields(added), Unsigned: strings.Fields(unsigned)}}
	}
	for _, tt := range []struct {
		name   string
		trials []trust.Trial
		want   []string // "level text" of each finding
	}{
		{"nothing is proved", []trust.Trial{{}, {Gate: trust.GateTrust}}, nil},
		{"rspamd", []trust.Trial{signing("from to subject date message-id in-reply-to references content-type", "from to", "")}, []string{
			"ok your provider signs From, To, Subject, Date, Message-ID, In-Reply-To, References, Content-Type (adding a second From or To would break the signature); " +
				"to address the agent, use its address in To, @goulard3120 in the subject or a reply to its mail"}},
		{"Gmail, no answer among them", []trust.Trial{signing("from to cc subject date message-id", "from to cc subject date message-id", "content-type")}, []string{
			"ok your provider signs From, To, Cc, Subject, Date, Message-ID (adding a second From, To, Cc, Subject, Date or Message-ID would break the signature); " +
				"to address the agent, use its address in To or Cc or @goulard3120 in the subject; none of these mails is a reply",
			"warn it does not sign Content-Type: a mail whose text can be read in two ways waits until you confirm it with YES"}},
		{"Gmail, one answer", []trust.Trial{signing("from to subject date", "", ""), signing("from to subject date in-reply-to references", "", "")}, []string{
			"ok your provider signs From, To, Subject, Date, In-Reply-To, References; to address the agent, use its address in To, @goulard3120 in the subject or a reply to its mail"}},
		{"Microsoft 365", []trust.Trial{signing("from subject date message-id content-type", "", "to in-reply-to references")}, []string{
			"ok your provider signs From, Subject, Date, Message-ID, Content-Type; to address the agent, use @goulard3120 in the subject or a reply to its mail with the subject of the thread",
			"info it does not sign To: the agent's address there does not count"}},
		{"iCloud", []trust.Trial{signing("from to subject date", "", "in-reply-to references content-type content-transfer-encoding")}, []string{
			"ok your provider signs From, To, Subject, Date; to address the agent, use its address in To or @goulard3120 in the subject",
			"info it does not sign In-Reply-To or References: a reply needs the agent's address in To, or @goulard3120 in the subject",
			"warn it does not sign Content-Type or Content-Transfer-Encoding: a mail whose text can be read in two ways waits until you confirm it with YES"}},
		{"one mail of two has a To that is not signed", []trust.Trial{signing("from to subject date", "", ""), signing("from subject date", "", "to")}, []string{
			"ok your provider signs From, Subject, Date; to address the agent, use @goulard3120 in the subject or a reply to its mail with the subject of the thread",
			"info it does not sign To: the agent's address there does not count"}},
		{"believed as it is", []trust.Trial{{Signing: &trust.Signing{Whole: true}}, {}}, []string{
			"info 1 of your last 2 mails are accepted without a signature, because of allow_spf or same_provider in [trust]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range (providerCheck{trials: tt.trials, handle: "goulard3120"}).findings() {
				if f.Check != "provider" {
					t.Errorf("check %q", f.Check)
				}
				got = append(got, fmt.Sprintf("%s %s", f.Level, f.Text))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}
