package mesh

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agentstateloop/internal/lazy"
)

// Keys renames members of JSON objects, for a mesh with other member names. A key is the name
// in the profile, its value the name on that mesh.
type Keys map[string]string

// receiptBody is the answer to POST /message and to POST /nudge.
type receiptBody struct {
	ID string `json:"id"`
}

// answerTypes returns the types of the objects in answers. Their members may be renamed.
func answerTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[Mailbox](), reflect.TypeFor[Message](), reflect.TypeFor[receiptBody](),
		reflect.TypeFor[onlineList](), reflect.TypeFor[Presence](), reflect.TypeFor[Status](),
	}
}

// requestTypes returns the types of the objects in our requests. Their members may be renamed.
func requestTypes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[postBody](), reflect.TypeFor[nudgeBody](), reflect.TypeFor[Presence]()}
}

// provenKey is the member by which a mesh reports that a token proves the sender. If it were
// renamed, its value could come from a member that the sender chooses.
const provenKey = "proven"

// undecodedKey is a member of a Mailbox that a mesh never sends.
const undecodedKey = "undecoded"

// bodyKey is another name of the member message.
const bodyKey = "body"

var foreignKey = lazy.NewRegexp(`^[A-Za-z0-9_.$@-]{1,64}$`)

// CheckIn checks the keys for the answers of a mesh. It returns the first wrong key, in the
// order of the names, and an error that does not repeat the key.
func (k Keys) CheckIn() (key string, err error) {
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if key == provenKey || foldedName(k[key]) == provenKey {
			return key, errors.New("proven cannot be renamed, or be the new name of another key: only the mesh sets it")
		}
	}
	return k.check(answerTypes())
}

// CheckOut is CheckIn for our requests.
func (k Keys) CheckOut() (key string, err error) { return k.check(requestTypes()) }

func (k Keys) check(objects []reflect.Type) (string, error) {
	if len(k) == 0 {
		return "", nil
	}
	var known []string
	for _, o := range objects {
		known = append(known, memberNames(o)...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	usable := slices.DeleteFunc(slices.Clone(known), func(key string) bool { return key == provenKey })
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if !slices.Contains(known, key) {
			return key, fmt.Errorf("unknown key: use one of %s", strings.Join(usable, ", "))
		}
		if !foreignKey.Get().MatchString(k[key]) {
			return key, fmt.Errorf("%q must have 1 to 64 of the characters A-Z a-z 0-9 _ . $ @ -", k[key])
		}
		for _, o := range objects {
			if other := k.clash(key, memberNames(o)); other != "" {
				return key, fmt.Errorf("%q is already the name of %s", k[key], other)
			}
		}
	}
	return "", nil
}

// clash returns the other member of an object whose name on the mesh is the new name of key, or
// "".
func (k Keys) clash(key string, members []string) string {
	if !slices.Contains(members, key) {
		return ""
	}
	for _, other := range members {
		if other != key && foldedName(k.name(other)) == foldedName(k[key]) {
			return other
		}
	}
	return ""
}

// name returns the name of a member on the mesh.
func (k Keys) name(key string) string {
	if name, ok := k[key]; ok {
		return name
	}
	return key
}

// of returns the keys for the members of an object.
func (k Keys) of(object reflect.Type) Keys {
	if len(k) == 0 {
		return nil
	}
	some := Keys{}
	for _, name := range memberNames(object) {
		if to, ok := k[name]; ok {
			some[name] = to
		}
	}
	return some
}

// ours gives members the names of the profile. It drops a member with a name of the profile
// that means something else on the mesh.
func (k Keys) ours(members []member) []member {
	if len(k) == 0 {
		return members
	}
	back := map[string]string{}
	for name, foreign := range k {
		back[foldedName(foreign)] = name
	}
	var named []member
	for _, m := range members {
		if name, ok := back[m.folded]; ok {
			m.folded = name
		} else if _, moved := k[m.folded]; moved {
			continue
		}
		named = append(named, m)
	}
	return named
}

// decode decodes an object with the member names of the mesh into v.
func (k Keys) decode(data []byte, v any) error {
	some := k.of(reflect.TypeOf(v).Elem())
	if len(some) == 0 {
		return json.Unmarshal(data, v)
	}
	members, err := splitObject(data)
	if err != nil {
		return err
	}
	return json.Unmarshal(joinObject(some.ours(members)), v)
}

// encode encodes v with the member names of the mesh.
func (k Keys) encode(v any) ([]byte, error) {
	data, err := encode(v)
	some := k.of(reflect.TypeOf(v))
	if err != nil || len(some) == 0 {
		return data, err
	}
	members, err := splitObject(data)
	if err != nil {
		return nil, err
	}
	for i := range members {
		members[i].folded = some.name(members[i].folded)
	}
	return joinObject(members), nil
}

// joinObject returns the object with these members. Their names need no escape.
func joinObject(members []member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.folded) // encoding a string cannot fail
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// textOf renames the member body to message, unless the mesh has its own name for the text, and
// reports whether it changed the members. It returns an error if a message has both members and
// they differ.
func (k Keys) textOf(members []member) (named []member, changed bool, err error) {
	at := slices.IndexFunc(members, func(m member) bool { return m.folded == bodyKey && string(m.raw) != "null" })
	if _, renamed := k["message"]; renamed || at < 0 {
		return members, false, nil
	}
	body := members[at]
	members = slices.Delete(slices.Clone(members), at, at+1)
	i := slices.IndexFunc(members, func(m member) bool { return m.folded == "message" })
	switch {
	case i < 0:
		return append(members, member{"message", body.raw}), true, nil
	case string(members[i].raw) == "null":
		members[i].raw = body.raw
	case !sameText(members[i].raw, body.raw):
		return nil, false, errTwoTexts
	}
	return members, true, nil
}

var errTwoTexts = errors.New("its message and its body are different texts")

// sameText reports whether two values are the same string.
func sameText(a, b []byte) bool {
	var x, y string
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}

// memberNames returns the names of the members of an object in JSON.
func memberNames(object reflect.Type) []string {
	var names []string
	for f := range object.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" && name != undecodedKey {
			names = append(names, name)
		}
	}
	return names
}

// foldedName folds a name as encoding/json does to compare names.
func foldedName(name string) string { return strings.Map(foldRune, name) }
