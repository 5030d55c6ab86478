//! The JSON of a Mali program -> what its text shows: members of structs indented, columns without
//! news left out.

use serde_json::{Map, Value};

/// Keys whose usual value tells nothing.
const USUAL: [(&str, u64); 1] = [("flags", 0x10)];
/// The tables of symbols.
const TABLES: [&str; 3] = ["uniforms", "attributes", "varyings"];

/// Changes the JSON of a program for text.
pub fn for_text(program: &mut Value, all: bool) {
    for table in TABLES {
        let Some(rows) = program.get_mut(table).and_then(Value::as_array_mut) else { continue };
        let depths: Vec<usize> = (0..rows.len()).map(|n| depth(rows, n)).collect();
        for (row, depth) in rows.iter_mut().zip(depths) {
            if let Some(name) = row["name"].as_str() {
                row["name"] = format!("{:width$}{name}", "", width = 2 * depth).into();
            }
        }
        for (key, usual) in USUAL.iter().filter(|_| !all) {
            if rows.iter().all(|row| row[key] == *usual) {
                let fields = rows.iter_mut().filter_map(Value::as_object_mut);
                fields.for_each(|row: &mut Map<String, Value>| drop(row.shift_remove(*key)));
            }
        }
    }
}

/// Structs around a row. Parents come before their members, so a file can't make a circle.
fn depth(rows: &[Value], row: usize) -> usize {
    let parent = |row: usize| rows[row]["parent"].as_u64().map(|n| n as usize).filter(|&n| n < row);
    std::iter::successors(parent(row), |&row| parent(row)).take(MOST_DEPTH).count()
}

/// Structs in structs that are drawn.
const MOST_DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_below_their_structs() {
        let row = |name: &str, parent: Value| json!({ "name": name, "parent": parent, "flags": 16 });
        let rows =
            [row("a", json!(null)), row("b", json!(0)), row("c", json!(1)), row("d", json!(3)), row("e", json!(9))];
        let mut program = json!({ "uniforms": rows });
        for_text(&mut program, true);
        let names: Vec<&str> = (0..5).filter_map(|n| program["uniforms"][n]["name"].as_str()).collect();
        assert_eq!(names, ["a", "  b", "    c", "d", "e"]);
        assert_eq!(program["uniforms"][0]["flags"], 16);
        for_text(&mut program, false);
        assert_eq!(program["uniforms"][0].get("flags"), None);
    }
}
