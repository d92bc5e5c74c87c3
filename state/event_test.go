package state_test

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// everyEvent holds one of each event. TestEveryEventIsListed keeps it complete.
var everyEvent = []state.Event{
	state.AgentEnded{}, state.Arrived{}, state.AskAgain{}, state.Asked{}, state.Awaited{}, state.BackendFailed{}, state.BackendWorked{}, state.Billed{}, state.Bounced{}, state.Challenged{}, state.Claimed{}, state.Compacted{}, state.Controlled{}, state.CredentialFailed{}, state.CredentialWorked{}, state.Credited{}, state.Damaged{},
	state.Discarded{}, state.Dropped{}, state.ElsewhereSeen{}, state.Ended{}, state.FetchEnded{}, state.Filed{}, state.Finished{}, state.FoundSent{}, state.Flagged{}, state.LargeFetched{}, state.GivenBack{}, state.HookFailed{}, state.HookTook{}, state.SourceFailed{}, state.SourceRead{}, state.MeshAcked{}, state.Noted{}, state.NudgeFiles{}, state.Nudged{},
	state.CalledNobody{}, state.Online{}, state.Ordered{}, state.OutboxDropped{}, state.OutboxRetried{}, state.Permitted{}, state.NotMended{}, state.Planned{}, state.Polled{}, state.Posted{}, state.PromptAsked{}, state.Prompted{}, state.Pruned{}, state.QuarantineHolds{}, state.Reaped{}, state.Recovered{}, state.Rejected{}, state.RejectedMore{}, state.Registered{}, state.RelayAsked{},
	state.Released{}, state.Remembered{}, state.Replied{}, state.Reported{}, state.MemoryReset{}, state.Mended{}, state.Moved{}, state.Rendered{}, state.Restored{}, state.Retried{}, state.Scheduled{}, state.SendFailed{}, state.Sending{}, state.Sent{}, state.SentRead{}, state.Settled{}, state.Slept{}, state.Spent{},
	state.Started{}, state.Stopped{}, state.Submitted{}, state.Suspended{}, state.Swept{}, state.Switched{}, state.TookFile{}, state.TookSeat{}, state.Unpaused{}, state.Unmoved{}, state.Unscheduled{}, state.Vouched{}, state.Withdrawn{},
}

// TestEveryEventIsListed compares everyEvent with the apply methods in the
// source, so that no test that walks over all events misses a new one.
func TestEveryEventIsListed(t *testing.T) {
	var listed []string
	for _, e := range everyEvent {
		listed = append(listed, reflect.TypeOf(e).Name())
	}
	slices.Sort(listed)
	if inSource := appliers(t); !slices.Equal(listed, inSource) {
		t.Errorf("everyEvent lists\n%v\nand these types have an apply method:\n%v", listed, inSource)
	}
}

// appliers returns the sorted names of the types with a method apply(*machine).
func appliers(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	check(t, err)
	var names []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.SkipObjectResolution)
		check(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "apply" {
				continue
			}
			names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestRedactedKeepsTheType checks that no event inherits Redacted from one that it
// embeds, which would return the inner event.
func TestRedactedKeepsTheType(t *testing.T) {
	same := func(s string) string { return s }
	for _, e := range everyEvent {
		r, ok := e.(state.Redactable)
		if ok && reflect.TypeOf(r.Redacted(same)) != reflect.TypeOf(e) {
			t.Errorf("%T.Redacted returns a %T", e, r.Redacted(same))
		}
	}
}

// eachField calls visit for every exported field in v, nested ones too, that
// is neither a struct nor a container. name is "Type.Field". Containers get
// one element first, pointers a value, and interfaces are left to visit.
func eachField(v reflect.Value, name string, visit func(name string, v reflect.Value)) {
	if !v.CanSet() || v.Type().PkgPath() == "time" && v.Kind() == reflect.Struct {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "Announces" {
				continue // Step makes it, from lines whose texts were redacted
			}
			eachField(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		eachField(v.Elem(), name, visit)
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			eachField(v.Index(i), name, visit)
		}
	default:
		visit(name, v)
	}
}

// settable returns a copy of e that reflection can change.
func settable(e state.Event) reflect.Value {
	v := reflect.New(reflect.TypeOf(e)).Elem()
	v.Set(reflect.ValueOf(e))
	return v
}

// notRedacted lists the fields of events that keep their text, by name where the
// name means the same everywhere, and why.
var notRedacted = map[string]string{
	// Keys and ids: another one would name something else.
	"Key": "key", "Cause": "key", "Keys": "keys", "Answers": "keys", "ID": "id", "IDs": "ids", "Tells": "ids", "MeshID": "id", "TurnID": "id", "ToolCallID": "id", "Correlation": "id", "Trace": "id",
	"Hand": "key", "Digest": "hash", "OldDigest": "hash", "Hash": "hash", "Same": "hash", "Sum": "hash", "Permit": "hash", "WordsSum": "hash", "Session": "id", "Mailbox": "hash", "MessageID": "id", "References": "ids",
	"Seed": "made by the store, and read by no one", "Host": "name of a machine", "ElsewhereSeen.Place": "hash", "Settled.Evidence": "fixed",
	"Name": "name of a credential", "Credential": "name of a credential", "Backend": "name of a backend", "Model": "name of a model",

	// Names of agents and people.
	"From": "handle, address or user", "To": "handle, address or phase", "Origin": "handle", "By": "user", "Handles": "handles", "With": "principal", "Asker": "principal", "Replied.Question": "id", "Permitted.Question": "id", "Tried": "addresses, handles", "Peers": "handles", "Hops": "handles",

	// Files of the state directory or of the output box.
	"File": "file", "Payload": "file", "Box": "folder", "OutputBox": "folder", "Words": "file", "Deliverable": "file of the output box", "Fields": "file of the output box",

	// Words from a fixed list.
	"ResultField.Type": "fixed", "FileRef.Type": "media type", "AfterExecution": "fixed",
	"Source": "fixed", "Kind": "fixed", "Channel": "fixed", "Status": "fixed", "Outcome": "fixed", "Phase": "fixed", "Tier": "fixed",
	"Gate": "fixed", "Control": "fixed", "Basis": "fixed", "Runner": "fixed", "Proof": "fixed", "Told": "fixed",

	"Scheduled.Line":      "the crontab line that we wrote: compared with the installed one",
	"Scheduled.AlarmLine": "likewise",
	"Scheduled.Binary":    "path of this program",
	"Thread.Subject":      "a mail program groups a conversation by it",
	"Message.Note":        "written by Step only",
	"Message.Reason":      "written by Step only, from what was redacted",
	"Message.Title":       "written by Step only, from what was redacted", "Message.EndedSleep": "written by Step only, from what was redacted",
	"Message.MadeBy": "id", "Message.ThreadID": "hash", "Thread": "hash", "Message.FollowsUp": "key", "Message.Said": "file", "Ended.Submitted": "file",
}

// exempt returns the entry of notRedacted that covers a field.
func exempt(field string) (entry string, ok bool) {
	_, bare, _ := strings.Cut(field, ".")
	for _, entry := range []string{field, bare} {
		if _, ok := notRedacted[entry]; ok {
			return entry, true
		}
	}
	return "", false
}

// TestForeignTextIsRedacted puts a secret into every string of every event.
// Redact must take it out of each that notRedacted does not list.
func TestForeignTextIsRedacted(t *testing.T) {
	const secret, hidden = "canary", "***"
	unused := maps.Clone(notRedacted)
	for _, e := range everyEvent {
		v := settable(e)
		eachField(v, "", func(_ string, v reflect.Value) {
			switch v.Kind() {
			case reflect.String:
				v.SetString(secret)
			case reflect.Interface:
				v.Set(reflect.ValueOf(state.Dropped{Reason: secret}))
			}
		})
		input := v.Interface().(state.Event)
		before := statetest.JSON(t, input)
		redacted := state.Redact([]state.Event{input}, func(s string) string { return strings.ReplaceAll(s, secret, hidden) })[0]
		if after := statetest.JSON(t, input); after != before {
			t.Errorf("Redact changed its argument: %s, was %s", after, before)
		}
		eachField(settable(redacted), "", func(name string, v reflect.Value) {
			got := ""
			switch v.Kind() {
			case reflect.String:
				got = v.String()
			case reflect.Interface:
				got = v.Interface().(state.Dropped).Reason
			default:
				return
			}
			entry, kept := exempt(name)
			delete(unused, entry)
			if kept != (got == secret) {
				t.Errorf("%T: %s is %q after Redact; listed in notRedacted: %v", e, name, got, kept)
			}
		})
	}
	for entry := range unused {
		t.Errorf("notRedacted lists %s, which no event has", entry)
	}
}
