package cycle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Ring nudges this agent: a file in nudges/, durable when Ring returns. Who
// polls next sees it; a poll under way looks for it before it ends.
func (a *Agent) Ring(from, reason string) error { return a.Store.Ring(from, reason) }

// ErrNoMesh: another agent is reached through the mesh, and none is configured.
var ErrNoMesh = errors.New("another agent is reached through the mesh, and none is configured")

// RingOther nudges another agent through the mesh; ErrNoMesh where there is none.
func (a *Agent) RingOther(ctx context.Context, handle, from, reason string) error {
	if a.Mesh == nil {
		return ErrNoMesh
	}
	if from == "" {
		from = a.Handle
	}
	return a.Mesh.Client.Nudge(ctx, handle, from, reason)
}

// Order moves the machine to a state, as `transition` does. It also takes the
// crontab line back into our care after an `uninstall`.
func (a *Agent) Order(ctx context.Context, to state.Phase, reason string, noMail bool) (state.State, error) {
	return a.commit(ctx,
		state.Unscheduled{Removed: false},
		state.Ordered{To: to, Reason: reason, NoMail: noMail},
	)
}

// Halt and Resume switch HALT on and off, here.
func (a *Agent) Halt(ctx context.Context, reason string) (state.State, error) {
	return a.commit(ctx, state.Switched{On: true, Reason: reason})
}

// Resume is GO. A HALT that was set on the mesh is lifted there.
func (a *Agent) Resume(ctx context.Context, reason string) (state.State, error) {
	return a.commit(ctx, state.Switched{On: false, Reason: reason})
}

// Tell puts an operator's message from the terminal into the inbox, durable
// when it returns, and gives the key to wait for.
func (a *Agent) Tell(ctx context.Context, from, text string) (key string, err error) {
	if strings.TrimSpace(text) == "" {
		return "", errors.New("the message is empty")
	}
	key = "cli:" + store.NewID()
	payload := store.PayloadName(store.MessagesDir, key, ".txt")
	if err := a.Store.Keep(payload, strings.NewReader(text)); err != nil {
		return "", fmt.Errorf("keep message: %w", err)
	}
	_, err = a.commit(ctx, state.Arrived{Message: state.Message{
		Key: key, Source: state.CLI, From: from, Operator: true, At: a.Now(), Payload: payload,
	}})
	return key, err
}
