"""What Alembic runs: the revisions, on the connection `upgrade` hands over, inside its transaction."""

from __future__ import annotations

from typing import Final

from alembic import context

# Text compares by its bytes on every engine, whatever the database's own locale.
SORT_BY_BYTES: Final = """
DO $$
DECLARE each record;
BEGIN
  FOR each IN
    SELECT c.table_name, string_agg(format('ALTER COLUMN %I TYPE text COLLATE "C"', c.column_name), ', ') AS changes
    FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
    WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
      AND c.data_type = 'text' AND c.collation_name IS DISTINCT FROM 'C'
    GROUP BY c.table_name
  LOOP
    EXECUTE format('ALTER TABLE %I %s', each.table_name, each.changes);
  END LOOP;
END $$
"""

connection = context.config.attributes["connection"]
context.configure(connection=connection)
context.run_migrations()
if connection.dialect.name == "postgresql":
    connection.exec_driver_sql(SORT_BY_BYTES.replace("%", "%%"))
