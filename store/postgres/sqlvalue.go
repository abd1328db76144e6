package postgres

import (
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Parameters are what every driver knows: whole numbers, truth values, bytes and text.
// Moments and arrays are text, of the one form that the server reads whatever the
// session's time zone and date style are. Drivers differ in what else they take, and in
// how many digits of a second come through.

func driverArgs(args []any) ([]any, error) {
	converted := make([]any, len(args))
	for i, arg := range args {
		value, err := driverArg(arg)
		if err != nil {
			return nil, fmt.Errorf("parameter $%d: %w", i+1, err)
		}
		converted[i] = value
	}
	return converted, nil
}

func driverArg(arg any) (any, error) {
	switch arg := arg.(type) {
	case nil, string, bool, int64, float64:
		return arg, nil
	case []byte:
		if arg == nil {
			return nil, nil
		}
		return arg, nil
	case time.Time:
		return momentText(arg), nil
	case driver.Valuer:
		if v := reflect.ValueOf(arg); v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, nil
		}
		value, err := arg.Value()
		if err != nil {
			return nil, err
		}
		if _, again := value.(driver.Valuer); again {
			return nil, fmt.Errorf("a %T has no plain value", arg)
		}
		return driverArg(value)
	}
	v := reflect.ValueOf(arg)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return driverArg(v.Elem().Interface())
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Slice:
		switch {
		case v.IsNil():
			return nil, nil
		case v.Type().Elem().Kind() == reflect.Uint8:
			return v.Bytes(), nil
		}
		return arrayText(v)
	}
	return nil, fmt.Errorf("a %T has no form that every driver knows", arg)
}

// momentText is RFC 3339, in UTC and with the six digits that the server keeps.
func momentText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// arrayText writes an array as the server reads one.
func arrayText(array reflect.Value) (string, error) {
	text := []byte{'{'}
	for i := range array.Len() {
		if i > 0 {
			text = append(text, ',')
		}
		value, err := driverArg(array.Index(i).Interface())
		if err != nil {
			return "", err
		}
		switch value := value.(type) {
		case nil:
			text = append(text, "NULL"...)
		case int64:
			text = strconv.AppendInt(text, value, 10)
		case bool:
			text = strconv.AppendBool(text, value)
		case float64:
			text = strconv.AppendFloat(text, value, 'g', -1, 64)
		case []byte:
			text = append(text, `"\\x`...)
			text = hex.AppendEncode(text, value)
			text = append(text, '"')
		case string:
			text = appendQuoted(text, value)
		}
	}
	return string(append(text, '}')), nil
}

func appendQuoted(text []byte, value string) []byte {
	text = append(text, '"')
	for i := range len(value) {
		if c := value[i]; c == '"' || c == '\\' {
			text = append(text, '\\')
		}
		text = append(text, value[i])
	}
	return append(text, '"')
}

// scanValue puts what a driver read into a variable.
func scanValue(dest, src any) error {
	switch dest := dest.(type) {
	case nil:
		return nil
	case sql.Scanner:
		return dest.Scan(src)
	case *time.Time:
		t, ok := src.(time.Time)
		if !ok {
			return fmt.Errorf("a %T is no moment", src)
		}
		*dest = t
		return nil
	}
	pointer := reflect.ValueOf(dest)
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
		return fmt.Errorf("a %T is nothing to scan into", dest)
	}
	v := pointer.Elem()
	if src == nil {
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice {
			return fmt.Errorf("NULL does not go into a %T", dest)
		}
		v.SetZero()
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		to := reflect.New(v.Type().Elem())
		v.Set(to)
		return scanValue(to.Interface(), src)
	case reflect.Slice:
		return scanSlice(v, dest, src)
	case reflect.Bool:
		if b, ok := src.(bool); ok {
			v.SetBool(b)
			return nil
		}
	case reflect.String:
		switch src := src.(type) {
		case string:
			v.SetString(src)
			return nil
		case []byte:
			v.SetString(string(src))
			return nil
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return scanInt(v, src)
	}
	return fmt.Errorf("a %T does not go into a %T", src, dest)
}

// scanInt reads whole numbers. Those that a driver has no type for, it leaves as text.
func scanInt(v reflect.Value, src any) error {
	n, err := int64(0), error(nil)
	switch src := src.(type) {
	case int64:
		n = src
	case string:
		n, err = strconv.ParseInt(src, 10, 64)
	case []byte:
		n, err = strconv.ParseInt(string(src), 10, 64)
	default:
		err = fmt.Errorf("a %T is no whole number", src)
	}
	if err == nil && v.OverflowInt(n) {
		err = fmt.Errorf("%d is too large for a %s", n, v.Type())
	}
	if err == nil {
		v.SetInt(n)
	}
	return err
}

// scanSlice reads bytes as they are, and arrays from their text.
func scanSlice(v reflect.Value, dest, src any) error {
	if v.Type().Elem().Kind() != reflect.Uint8 {
		return pgtype.NewMap().SQLScanner(dest).Scan(src)
	}
	switch src := src.(type) {
	case []byte:
		v.SetBytes(src)
	case string:
		v.SetBytes([]byte(src))
	default:
		return fmt.Errorf("a %T does not go into a %T", src, dest)
	}
	return nil
}
