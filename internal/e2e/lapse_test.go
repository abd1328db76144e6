package e2e

// noteLapses has the database write down each lease that lapsed and cost something:
// a row that was handed off or ran, was not given back, and is claimed anew. It
// needs the schema app.
func (d *database) noteLapses() {
	d.t.Helper()
	d.exec(`CREATE TABLE app.lapse (delivery_id bigint NOT NULL, held_by text NOT NULL, claimed_by text NOT NULL, taken boolean NOT NULL);
		CREATE FUNCTION app.note_lapse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO app.lapse VALUES (NEW.id, OLD.claimed_by, NEW.claimed_by, OLD.taken_at IS NOT NULL); RETURN NULL;
		END $$;
		CREATE TRIGGER lapse AFTER UPDATE ON waybill.delivery FOR EACH ROW
			WHEN (OLD.status = 'claimed' AND NEW.status = 'claimed' AND NEW.claimed_at <> OLD.claimed_at
				AND OLD.handed_off_at IS NOT NULL AND NEW.taken_at IS NULL) EXECUTE FUNCTION app.note_lapse();`)
}

// lapses is how many leases lapsed.
func (d *database) lapses() int {
	d.t.Helper()
	return d.count(`SELECT count(*) FROM app.lapse`)
}
