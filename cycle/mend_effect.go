package cycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentstateloop/mail/message"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// effectMender reads the files of effects, and renders damaged ones again (docs/design.md,
// "Damaged files").
type effectMender struct {
	core
	renderer *renderer
	replier  *replier
}

// read returns the bytes of an effect, checked against its row. If they are unreadable, it
// returns events that update the row instead. The file may be whole again once these are
// committed.
func (em *effectMender) read(s state.State, e state.Effect) ([]byte, []state.Event) {
	data, err := em.store.ReadSummed(e.File, e.Sum)
	if err == nil && !isFor(e, data) {
		err = store.Damaged(e.File, errors.New("it is not addressed to "+e.To))
	}
	switch {
	case err == nil:
		return data, nil
	case !errors.Is(err, store.ErrDamaged):
		return nil, []state.Event{state.SendFailed{ID: e.ID, Unknown: e.Unknown, Reason: err.Error()}}
	case e.Kind == state.Challenge && !e.MayHaveLeft():
		return nil, []state.Event{state.AskAgain{ID: e.ID, Reason: err.Error()}}
	}
	return nil, []state.Event{em.mend(s, e, err)}
}

// isFor reports whether the bytes of an effect name its recipient.
func isFor(e state.Effect, data []byte) bool {
	if e.Channel == state.ByMail {
		to := strings.Join(message.Values(message.Fields(data), "to"), ",")
		return slices.Equal(message.Addresses(to), []string{message.NormalAddress(e.To)})
	}
	var m mesh.Message
	return json.Unmarshal(data, &m) == nil && m.ID == e.ID && m.To == e.To
}

// mend renders the file of an effect again. If a copy may have left, only the same bytes may
// replace the damaged ones.
func (em *effectMender) mend(s state.State, e state.Effect, damage error) state.Event {
	failed := state.SendFailed{ID: e.ID, Permanent: true, Unknown: e.MayHaveLeft()}
	fresh, err := em.render(s, e)
	if err != nil {
		failed.Reason = fmt.Sprintf("%v, and it cannot be made again: %v", damage, err)
		return failed
	}
	if e.MayHaveLeft() && store.Sum(fresh) != e.Sum {
		failed.Reason = fmt.Sprintf("%v; a copy may have arrived, so no other one is sent", damage)
		return failed
	}
	sum, err := em.store.KeepAgain(e.File, "", bytes.NewReader(fresh))
	if err != nil {
		return state.SendFailed{ID: e.ID, Unknown: e.Unknown, Reason: fmt.Sprintf("%v, and it cannot be written again: %v", damage, err)}
	}
	return state.Rendered{ID: e.ID, Sum: sum, Reason: damage.Error()}
}

// render renders an effect again from its original input.
func (em *effectMender) render(s state.State, e state.Effect) ([]byte, error) {
	switch {
	case e.Channel == state.ByMail && em.renderer.mail == nil:
		return nil, errors.New("no mail is configured any more")
	case e.Origin != "":
		return em.replier.again(e)
	case e.Kind == state.Challenge, e.Kind == state.Reply && e.Text == "":
		return nil, errors.New("what it was made from was not recorded")
	}
	return em.renderer.render(s, e, em.now())
}
