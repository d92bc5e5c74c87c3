package page

import _ "embed"

// The parts of the page, as a browser gets them. Page loads the other three by relative links.
var (
	//go:embed assets/index.html
	Index string
	//go:embed assets/page.css
	Style string
	//go:embed assets/page.js
	Script string
	//go:embed assets/icon.svg
	Icon string
)
