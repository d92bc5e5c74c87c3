package cycle

import (
	"strings"

	"agentstateloop/mail/message"
	"agentstateloop/state/store"
)

const (
	maxAnswered = 5       // mails of ours whose text is looked for in an answer
	maxSentMail = 1 << 20 // bytes of one of them that are read
)

// sentFile returns the path of a mail that has left. Ids are compared without regard to
// case.
func sentFile(effect string) string {
	return store.PayloadName(store.SentDir, strings.ToLower(effect), ".eml")
}

// contentOf reads a mail that came to the agent of st.
func contentOf(st *store.Store, raw []byte) message.Content {
	return message.ContentOf(raw, repeated(st, message.ParseHeader(raw)))
}

// repeated returns what a mail with this header may repeat of ours: the texts of the mails
// that it answers, as far as they are still there. A file of ours counts only for the
// Message-ID that it has, so an id that somebody invents finds nothing.
func repeated(st *store.Store, h message.Header) message.Sent {
	sent := message.Sent{Names: []string{st.Agent}}
	for _, id := range h.Answered() {
		effect, ok := message.EffectOf(id, st.Agent)
		if !ok || len(sent.Texts) == maxAnswered {
			continue
		}
		raw, err := st.ReadFile(sentFile(effect), maxSentMail)
		if err != nil {
			continue
		}
		ours := message.ParseHeader(raw)
		if !strings.EqualFold(ours.MessageID, id) {
			continue
		}
		sent.Texts = append(sent.Texts, message.ContentOf(raw, message.Sent{}).Full)
		sent.Names = append(sent.Names, ours.From, message.SenderName(raw))
	}
	return sent
}
