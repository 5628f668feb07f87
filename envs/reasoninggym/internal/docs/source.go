package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// configs are the config structs of the package, as its source describes them.
type configs struct {
	structs map[string]config // by the struct's name
	of      map[string]string // the struct's name by the dataset's
}

type config struct {
	Struct string
	Note   string // what its documentation says after the first sentence
	fields []field
}

type field struct {
	name, kind, comment string
	element             string // the type of a list's elements
}

// readConfigs reads the source of a package: the structs, and which definition[Struct]{name: …} belongs to which dataset.
func readConfigs(folder string) (configs, error) {
	c := configs{structs: map[string]config{}, of: map[string]string{"composite": "CompositeConfig"}}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return c, err
	}
	files := token.NewFileSet()
	for _, path := range paths {
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return c, err
		}
		for _, d := range file.Decls {
			general, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if s, ok := spec.Type.(*ast.StructType); ok {
						c.structs[spec.Name.Name] = readStruct(spec.Name.Name, general.Doc.Text(), s)
					}
				case *ast.ValueSpec:
					for _, value := range spec.Values {
						if dataset, name, ok := readDefinition(value); ok {
							c.of[dataset] = name
						}
					}
				}
			}
		}
	}
	return c, nil
}

func readStruct(name, doc string, s *ast.StructType) config {
	_, note, _ := strings.Cut(strings.Join(strings.Fields(doc), " "), ". ")
	c := config{Struct: name, Note: note}
	for _, f := range s.Fields.List {
		if f.Tag == nil || len(f.Names) != 1 {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		kind, element := kindOf(f.Type)
		c.fields = append(c.fields, field{reflect.StructTag(tag).Get("json"), kind, strings.TrimSpace(f.Comment.Text()), element})
	}
	return c
}

// kindOf is what a value of a field's type is in JSON.
func kindOf(t ast.Expr) (kind, element string) {
	if list, ok := t.(*ast.ArrayType); ok {
		kind, _ := kindOf(list.Elt)
		return "list of " + kind + "s", fmt.Sprint(list.Elt)
	}
	switch name := fmt.Sprint(t); name {
	case "int", "int64":
		return "integer", ""
	case "float64", "Number": // which differ in how Python shows them
		return "number", ""
	case "string", "Mode":
		return "string", ""
	case "bool":
		return "boolean", ""
	}
	return "object", ""
}

// readDefinition recognizes definition[Struct]{name: "dataset", …}.
func readDefinition(e ast.Expr) (dataset, name string, ok bool) {
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		return "", "", false
	}
	of, ok := literal.Type.(*ast.IndexExpr)
	if !ok || fmt.Sprint(of.X) != "definition" {
		return "", "", false
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok || fmt.Sprint(pair.Key) != "name" {
			continue
		}
		if text, ok := pair.Value.(*ast.BasicLit); ok {
			dataset, err := strconv.Unquote(text.Value)
			return dataset, fmt.Sprint(of.Index), err == nil
		}
	}
	return "", "", false
}
