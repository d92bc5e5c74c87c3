package config

import (
	"reflect"
	"strings"
	"testing"

	"agentstateloop/mail"
)

// TestTrust checks that the sender must be proved, except with "from".
func TestTrust(t *testing.T) {
	for lines, want := range map[string]mail.Filter{
		`authserv_id = "mx.google.com"`:                                 {Require: mail.RequireDMARC, Verify: mail.VerifyServer, AuthservID: "mx.google.com"},
		`authserv_id = "mx.example.com"` + "\nsame_provider = \"auth\"": {Require: mail.RequireDMARC, Verify: mail.VerifyServer, AuthservID: "mx.example.com", SameProvider: true},
		`authserv_id = "mx.example.com"` + "\nallow_spf = true":         {Require: mail.RequireDMARC, Verify: mail.VerifyServer, AuthservID: "mx.example.com", AllowSPF: true},
		`verify = "dkim"`: {Require: mail.RequireDMARC, Verify: mail.VerifyDKIM},
		`verify = "dkim"` + "\nresolver = \"[::1]:53\"": {Require: mail.RequireDMARC, Verify: mail.VerifyDKIM, Resolver: "[::1]:53"},
		`require = "from"`: {Require: mail.RequireFrom},
	} {
		a, err := testLoader().Load(writeConfig(t, smallConfig+strings.Replace(smallMail, `require = "from"`, lines, 1)))
		if err != nil {
			t.Errorf("%s: %v", lines, err)
			continue
		}
		got := a.Mail.Filter
		want.Handle, want.Operators, want.Own, want.MaxSize = got.Handle, got.Operators, got.Own, got.MaxSize
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", lines, got, want)
		}
		if Unproved(a) != (want.Require == mail.RequireFrom) {
			t.Errorf("%s: unproved is %v", lines, Unproved(a))
		}
	}
}
