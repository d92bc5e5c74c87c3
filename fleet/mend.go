package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// difference is a setting with a wrong value.
type difference struct {
	field      string // as in JetStream's JSON
	have, want any
}

func (d difference) String() string {
	return fmt.Sprintf("%s %s instead of %s", d.field, setting(d.field, d.have), setting(d.field, d.want))
}

// setting returns the value of a setting in readable form.
func setting(field string, value any) string {
	switch v := value.(type) {
	case nil:
		return "not set"
	case float64:
		if slices.Contains([]string{"max_age", "duplicate_window", "ack_wait"}, field) {
			return time.Duration(v).String()
		}
		return fmt.Sprintf("%.0f", v)
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // it was read from JSON
	return strings.TrimSpace(text.String())
}

// compare returns the differences between want and have, JetStream's answer. It ignores
// settings that want does not have.
func compare(want any, have map[string]any) []difference {
	data, _ := json.Marshal(want) // a struct of strings, numbers and booleans
	var wanted map[string]any
	_ = json.Unmarshal(data, &wanted)
	var all []difference
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		if !agrees(field, have[field], wanted[field]) {
			all = append(all, difference{field, have[field], wanted[field]})
		}
	}
	return all
}

// agrees reports whether a setting needs no change. The administrator chooses the space of a
// stream, as long as there is a limit.
func agrees(field string, have, want any) bool {
	switch w := want.(type) {
	case float64:
		h, _ := have.(float64) // the answer omits unset settings
		return h == w || field == "max_bytes" && w > 0 && h > 0
	case bool:
		h, _ := have.(bool)
		return h == w
	case string:
		h, _ := have.(string)
		return h == w
	}
	return fmt.Sprint(have) == fmt.Sprint(want)
}

// reasonToLeave returns why a setting of a stream is left as it is, or "" if it can be corrected.
func (i assetInfo) reasonToLeave(d difference) string {
	have, _ := d.have.(float64)
	want, _ := d.want.(float64)
	narrower := have <= 0 || want < have // no limit, or a wider one
	switch d.field {
	case "retention", "storage", "sealed", "max_consumers":
		return "cannot be changed"
	case "num_replicas":
		if want < have {
			return "replicas are not reduced automatically"
		}
	case "max_msgs_per_subject":
		if narrower && i.State.Messages > int64(want)/2 {
			return "the new limit could delete messages"
		}
	case "max_bytes":
		if i.State.Bytes > int64(want)/2 {
			return "the new limit could delete messages"
		}
	case "max_age":
		if narrower && i.State.Messages > 0 && i.Time.Sub(i.State.First) > time.Duration(want)/2 {
			return "the new limit could delete messages"
		}
	}
	return ""
}

// editStream returns instructions to change the settings of a stream by hand.
func editStream(stream string, left map[string]any) string {
	var flags []string
	for _, field := range fields(left) {
		switch value := left[field]; field {
		case "retention", "storage", "sealed", "max_consumers":
			return fmt.Sprintf("back it up (nats stream backup %s FOLDER), delete it (nats stream rm %s), and run fleet create again", stream, stream)
		case "num_replicas":
			flags = append(flags, "--replicas="+setting(field, value))
		case "max_msgs_per_subject":
			flags = append(flags, "--max-msgs-per-subject="+setting(field, value))
		case "max_bytes":
			flags = append(flags, "--max-bytes="+setting(field, value))
		case "max_age":
			flags = append(flags, "--max-age="+setting(field, value))
		}
	}
	return fmt.Sprintf("to change it anyway: nats stream edit %s %s", stream, strings.Join(flags, " "))
}

func fields(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
