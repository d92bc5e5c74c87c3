package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// File returns the page of a document as one HTML file. The style, the script and the document are
// inside, and the file loads nothing. It only shows: it has no session and no token.
func File(d Document) ([]byte, error) {
	d.Live, d.ActToken = false, nil
	data, err := json.Marshal(d) // writes <, > and & as escapes, so no text ends the element
	if err != nil {
		return nil, err
	}
	policy := "default-src 'none'; script-src " + hash(Script) + "; style-src " + hash(Style) +
		"; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
	return []byte(strings.NewReplacer(
		`<meta charset="utf-8">`, `<meta charset="utf-8">`+"\n"+`<meta http-equiv="Content-Security-Policy" content="`+policy+`">`,
		`<link rel="icon" href="page/icon.svg">`+"\n", "",
		`<link rel="stylesheet" href="page/page.css">`, "<style>"+Style+"</style>",
		`<script src="page/page.js"></script>`, `<script type="application/json" id="document">`+string(data)+"</script>\n<script>"+Script+"</script>",
	).Replace(Index)), nil
}

// hash returns the source expression of a policy that allows exactly this text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
