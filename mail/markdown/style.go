package markdown

// A page sets no color of its own, so it fits both the light and the dark mode of a mail
// program. It uses only the fonts of the phone. Each tag carries its style, because several
// programs drop style sheets.
const (
	pageHead = "<!DOCTYPE html>\n<html>\n<head>\n" +
		`<meta charset="utf-8">` + "\n" +
		`<meta name="viewport" content="width=device-width, initial-scale=1">` + "\n" +
		`<meta name="color-scheme" content="light dark">` + "\n" +
		"<title></title>\n<style>:root{color-scheme:light dark}td,th{max-width:16em;overflow-wrap:break-word;vertical-align:top}</style>\n</head>\n" +
		`<body style="margin:0;padding:8px">` + "\n" +
		`<div style="font-family:-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:16px;line-height:1.5;max-width:46em;overflow-wrap:anywhere">` + "\n"
	pageFoot = "</div>\n</body>\n</html>\n"

	grey = "rgba(127,127,127,0.4)"
	mono = "font-family:ui-monospace,Menlo,monospace;font-size:14px;"

	paragraphTag  = `<p dir="auto" style="margin:0 0 12px">`
	listStyle     = ` style="margin:0 0 12px;padding-inline-start:24px"`
	nestedStyle   = ` style="margin:0;padding-inline-start:24px"`
	itemStyle     = ` style="margin:0 0 4px"`
	taskStyle     = ` style="margin:0 0 4px;list-style-type:none;margin-inline-start:-20px"`
	quoteStyle    = ` style="margin:0 0 12px;padding:0 0 0 12px;border-left:4px solid ` + grey + `"`
	hrStyle       = ` style="margin:16px 0;border:0;border-top:1px solid ` + grey + `"`
	codeSpanStyle = ` style="` + mono + `padding:1px 4px;border-radius:4px;background-color:rgba(127,127,127,0.15)"`
	scrollStyle   = ` style="margin:0 0 12px;overflow-x:auto"`
	tableStyle    = ` border="1" cellpadding="6" style="border-collapse:collapse;border-color:` + grey + `;overflow-wrap:normal"`

	block        = `margin:0 0 12px;padding:8px;border-radius:6px;background-color:rgba(127,127,127,0.12);line-height:1.4;`
	codeStyle    = ` dir="ltr" style="` + block + mono + `white-space:pre-wrap;tab-size:4;overflow-wrap:anywhere"`
	columnsStyle = ` dir="ltr" style="` + block + mono + `white-space:pre;tab-size:8;overflow-x:auto;overflow-wrap:normal"`
)

// headingStyle holds the style of each level of heading, level 1 first.
var headingStyle = [6]string{
	` style="margin:16px 0 8px;font-size:22px;line-height:1.3"`,
	` style="margin:16px 0 8px;font-size:19px;line-height:1.3"`,
	` style="margin:16px 0 8px;font-size:17px;line-height:1.3"`,
	` style="margin:12px 0 8px;font-size:16px;line-height:1.3"`,
	` style="margin:12px 0 8px;font-size:16px;line-height:1.3"`,
	` style="margin:12px 0 8px;font-size:16px;line-height:1.3"`,
}
