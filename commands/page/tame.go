package page

import (
	"reflect"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
)

// maxText limits each text of a document, in characters. A question to the operator has fewer.
const maxText = 4096

// tame returns a copy of an agent in which no text has a known secret, is longer than maxText, or has
// characters that control a terminal or change the direction of writing. So no field can be forgotten.
func tame(a Agent, secrets *secret.Known) Agent {
	return tamed(reflect.ValueOf(a), secrets).Interface().(Agent)
}

// tamed changes a copy, because a status shares its texts with the state.
func tamed(v reflect.Value, secrets *secret.Known) reflect.Value {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(plain.Shorten(terminal.Printable(plain.Cut(secrets.Redact(v.String()), 4*maxText)), maxText))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(tamed(v.Elem(), secrets))
		}
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(tamed(v.Index(i), secrets))
		}
	case reflect.Map:
		out.Set(reflect.MakeMap(v.Type()))
		for at := v.MapRange(); at.Next(); {
			out.SetMapIndex(tamed(at.Key(), secrets), tamed(at.Value(), secrets))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(tamed(v.Field(i), secrets))
		}
	default:
		return v
	}
	return out
}
