package cycle

import (
	"reflect"
	"testing"

	"agentstateloop/mail"
)

// maxPart is how many bytes a part may have: it is copied nowhere, but what it
// holds by value is part of it. attempter, the largest, has 472.
const maxPart = 512

// TestPartsAreSmall checks that a part holds others by pointer, so that copies of parts do not
// make the stacks of a poll grow.
func TestPartsAreSmall(t *testing.T) {
	a := &Agent{}
	seen := map[reflect.Type]bool{}
	for _, part := range []any{
		a.poller(new(mailSession)), a.lingerer(new(mail.Watch)), a.puller(), a.previewer(), a.outbox(), a.planner(), a.operatorAsker(),
		a.awaiter(), a.reportTaker(), a.promptViewer(), a.answerTaker(), a.summaryMaker(a.mainBackend()), a.outgoing(),
	} {
		checkPart(t, reflect.TypeOf(part), seen)
	}
	if len(seen) < 30 {
		t.Errorf("%d parts seen: the test looks at nothing", len(seen))
	}
}

// checkPart checks a part, and those that it holds.
func checkPart(t *testing.T, part reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	if part.Kind() == reflect.Pointer {
		part = part.Elem()
	}
	here := reflect.TypeFor[journal]().PkgPath()
	if part.Kind() != reflect.Struct || part.PkgPath() != here || seen[part] || part.Name() == "Mail" || part.Name() == "Mesh" {
		return // Mail and Mesh are what the Agent was made with
	}
	seen[part] = true
	if part.Size() > maxPart {
		t.Errorf("%s has %d bytes: let it hold its parts by pointer", part.Name(), part.Size())
	}
	for i := range part.NumField() {
		checkPart(t, part.Field(i).Type, seen)
	}
}
