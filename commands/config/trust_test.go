package config

import (
	"reflect"
	"strings"
	"testing"

	"agentstateloop/mail/trust"
)

// TestTrustSettings checks that the sender must be proved, except with "from".
func TestTrustSettings(t *testing.T) {
	for lines, want := range map[string]trust.Filter{
		`authserv_id = "mx.google.com"`:                                 {Require: trust.RequireDMARC, Verify: trust.VerifyServer, AuthservID: "mx.google.com"},
		`authserv_id = "mx.example.com"` + "\nsame_provider = \"auth\"": {Require: trust.RequireDMARC, Verify: trust.VerifyServer, AuthservID: "mx.example.com", SameProvider: true},
		`authserv_id = "mx.example.com"` + "\nallow_spf = true":         {Require: trust.RequireDMARC, Verify: trust.VerifyServer, AuthservID: "mx.example.com", AllowSPF: true},
		`verify = "dkim"`: {Require: trust.RequireDMARC, Verify: trust.VerifyDKIM},
		`verify = "dkim"` + "\nresolver = \"[::1]:53\"": {Require: trust.RequireDMARC, Verify: trust.VerifyDKIM, Resolver: "[::1]:53"},
		`require = "from"`: {Require: trust.RequireFrom},
	} {
		a := mustLoad(t, smallConfig+strings.Replace(smallMail, `require = "from"`, lines, 1))
		got := a.Mail.Filter
		want.Handle, want.Operators, want.Own, want.MaxSize = got.Handle, got.Operators, got.Own, got.MaxSize
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", lines, got, want)
		}
		if Unproved(a) != (want.Require == trust.RequireFrom) {
			t.Errorf("%s: unproved is %v", lines, Unproved(a))
		}
	}
}
