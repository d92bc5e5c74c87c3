package cycle

import (
	"strings"

	"agentstateloop/mail/message"
	"agentstateloop/state/store"
)

const (
	maxAnswered = 5       // sent mails whose text is looked for in an answer
	maxSentMail = 1 << 20 // bytes of each that are read
)

// sentFile returns the path of a sent mail. Ids are compared without regard to case.
func sentFile(effect string) string {
	return store.PayloadName(store.SentDir, strings.ToLower(effect), ".eml")
}

// contentOf reads a mail that came to the agent of st.
func contentOf(st *store.Store, raw []byte) message.Content {
	return message.ContentOf(raw, repeated(st, message.ParseHeader(raw)))
}

// repeated returns our texts that a mail with this header may repeat: those of the mails that
// it answers, as far as they are still kept. A file of ours counts only for the Message-ID that
// it has, so an invented id finds no text.
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
