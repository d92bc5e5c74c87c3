package commands

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var updatePage = flag.Bool("update", false, "write the part of docs/json.md that is made from docs/json")

// pageMark is the line of docs/json.md before the part that is made from docs/json.
const pageMark = "<!-- What follows is made from docs/json: go test ./commands -run TestJSONPage -update -->\n"

// TestJSONPage checks that docs/json.md agrees with docs/json. With -update it writes that part of
// the page.
func TestJSONPage(t *testing.T) {
	const file = "../docs/json.md"
	head, made, found := strings.Cut(readFile(t, file), pageMark)
	if !found {
		t.Fatalf("docs/json.md has no line %s", pageMark)
	}
	want := pageOf(readSchemas(t))
	if *updatePage {
		if err := os.WriteFile(file, []byte(head+pageMark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if made != want {
		t.Error("docs/json.md does not agree with docs/json: go test ./commands -run TestJSONPage -update")
	}
}

// TestErrorCodesAreDocumented checks that the page has each error code, and that the schema has the
// same codes.
func TestErrorCodesAreDocumented(t *testing.T) {
	page := readFile(t, "../docs/json.md")
	definition := readSchemas(t).trees["common.json"].object("$defs").object("error")
	listed := list(definition.object("properties").object("code").values["enum"])
	for _, code := range errorCodes {
		if !slices.Contains(listed, any(string(code))) {
			t.Errorf("docs/json/common.json does not have the code %s", code)
		}
		if !strings.Contains(page, fmt.Sprintf("\n| `%s` |", code)) {
			t.Errorf("docs/json.md does not explain the code %s", code)
		}
	}
	if len(listed) != len(errorCodes) {
		t.Errorf("docs/json/common.json has %d codes, and there are %d", len(listed), len(errorCodes))
	}
}

// object returns the object at a key, or nil if its value is not an object.
func (o *object) object(key string) *object {
	inner, _ := o.values[key].(*object)
	return inner
}

// pageOf returns the part of the page that describes each output.
func pageOf(ss *schemas) string {
	p := &jsonPage{schemas: ss}
	p.printf("\n## Outputs\n")
	for _, group := range commandsInOrder(ss) {
		p.output(group)
	}
	p.printf("\n## Shared shapes\n")
	defs := ss.trees["common.json"].object("$defs")
	for _, name := range defs.keys {
		def := defs.object(name)
		if def.object("properties") == nil {
			continue
		}
		p.printf("\n### %s\n\n%s\n", name, def.values["description"])
		p.table("common.json", def)
	}
	return p.String()
}

// commandsInOrder returns the schemas of commands in the order of --help, with help.json at the end.
func commandsInOrder(ss *schemas) (all []*schema) {
	order := append(leaves(testProgram().app().Commands, nil), "")
	all = slices.DeleteFunc(slices.Clone(ss.all), func(s *schema) bool { return s.command == nil })
	slices.SortStableFunc(all, func(a, b *schema) int {
		return slices.Index(order, *a.command) - slices.Index(order, *b.command)
	})
	return all
}

// jsonPage writes the page.
type jsonPage struct {
	schemas *schemas
	bytes.Buffer
}

func (p *jsonPage) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// output describes the output of one command.
func (p *jsonPage) output(s *schema) {
	p.printf("\n### %s\n\n%s\n", s.usage, s.tree.values["description"])
	var kind []string
	if s.stream {
		kind = append(kind, "JSON lines")
	}
	if s.reportsFailure {
		kind = append(kind, "if the command fails after this document, no error document follows it")
	}
	kind = append(kind, fmt.Sprintf("schema: [json/%s](json/%s)", s.file, s.file))
	text := strings.Join(kind, "; ")
	p.printf("\n%s.\n", strings.ToUpper(text[:1])+text[1:])
	p.table(s.file, s.tree)
}

// table describes the keys of an object, of each item of a list, or of each of several
// objects.
func (p *jsonPage) table(file string, node *object) {
	if _, ok := node.values["$ref"].(string); ok {
		p.printf("\nIt is: %s.\n", p.typeOf(file, node))
		return
	}
	if items := node.object("items"); items != nil {
		if items.values["properties"] == nil && items.values["oneOf"] == nil {
			p.printf("\nIt is a list. Each item is: %s.\n", p.typeOf(file, items))
			return
		}
		p.printf("\nIt is a list of objects:\n")
		p.table(file, items)
		return
	}
	for _, one := range list(node.values["oneOf"]) {
		p.printf("\nFor %s:\n", one.(*object).values["title"])
		p.table(file, one.(*object))
	}
	if node.values["properties"] == nil {
		return
	}
	p.printf("\n| key | type | meaning |\n|---|---|---|\n")
	p.rows(file, node, "")
}

// rows describes the keys of an object, each behind a prefix.
func (p *jsonPage) rows(file string, node *object, prefix string) {
	properties := node.object("properties")
	for _, key := range properties.keys {
		property := properties.object(key)
		typ := p.typeOf(file, property)
		if !slices.Contains(list(node.values["required"]), any(key)) {
			typ += ", may be missing"
		}
		p.printf("| `%s%s` | %s | %s |\n", prefix, key, typ, property.values["description"])
		p.inner(file, property, prefix+key)
	}
}

// inner describes the objects within a property.
func (p *jsonPage) inner(file string, property *object, path string) {
	if ref, _ := property.values["$ref"].(string); strings.HasPrefix(ref, "#/$defs/") && file != "common.json" {
		_, target, err := p.schemas.follow(file, property)
		if err != nil {
			panic(err)
		}
		property = target
	}
	if property.values["properties"] != nil {
		p.rows(file, property, path+".")
	}
	if items := property.object("items"); items != nil {
		p.inner(file, items, path+"[]")
	}
	if values := property.object("additionalProperties"); values != nil {
		p.inner(file, values, path+".*")
	}
	for _, one := range list(property.values["anyOf"]) {
		p.inner(file, one.(*object), path)
	}
}

// typeOf returns the type of a property in words.
func (p *jsonPage) typeOf(file string, node *object) string {
	if ref, ok := node.values["$ref"].(string); ok {
		return p.reference(file, ref, node)
	}
	if choices := list(node.values["anyOf"]); choices != nil {
		var words []string
		for _, one := range choices {
			words = append(words, p.typeOf(file, one.(*object)))
		}
		return strings.Join(words, " or ")
	}
	if enum := list(node.values["enum"]); enum != nil {
		return enumText(enum)
	}
	if constant, ok := node.values["const"]; ok {
		return enumText([]any{constant})
	}
	if items := node.object("items"); items != nil {
		text := "list of " + plural(p.typeOf(file, items))
		if types := list(node.values["type"]); types != nil {
			text += ", or null"
		}
		return text
	}
	if values := node.object("additionalProperties"); values != nil {
		return "object with, for each name, " + p.typeOf(file, values)
	}
	if node.values["format"] == "date-time" {
		return "time" + map[bool]string{true: " or null"}[list(node.values["type"]) != nil]
	}
	switch types := node.values["type"].(type) {
	case string:
		return types
	case []any:
		var words []string
		for _, word := range types {
			words = append(words, word.(string))
		}
		return strings.Join(words, " or ")
	}
	return "any value"
}

// reference returns the type that a reference refers to: a link if the page has a heading for it.
func (p *jsonPage) reference(file, ref string, node *object) string {
	in, target, err := p.schemas.follow(file, node)
	if err != nil {
		return err.Error()
	}
	_, name, def := strings.Cut(ref, "#/$defs/")
	switch {
	case !def:
		usage := p.schemas.named(in).usage
		return fmt.Sprintf("[%s](#%s)", usage, anchor(usage))
	case target.values["properties"] != nil && in == "common.json":
		return fmt.Sprintf("[%s](#%s)", name, anchor(name))
	}
	return p.typeOf(in, target)
}

// enumText returns the values of a closed set.
func enumText(values []any) string {
	var words []string
	for _, value := range values {
		switch value := value.(type) {
		case nil:
			words = append(words, "null")
		case string:
			words = append(words, fmt.Sprintf("`\"%s\"`", value))
		default:
			words = append(words, fmt.Sprintf("`%v`", value))
		}
	}
	return strings.Join(words, " ")
}

// plural returns the plural of a type in words.
func plural(typ string) string {
	switch typ {
	case "string", "object", "number", "integer":
		return typ + "s"
	}
	return typ
}

// anchor returns the anchor of a heading, as GitHub makes it.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}
