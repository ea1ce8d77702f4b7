import { useState } from 'react';
import { asFault } from '../../api/fault.ts';
import { Button, FaultNote, Field, Row } from '../../parts/index.tsx';
import { changeOf, draftOf, tightens } from './policy-draft.ts';
import { useRackChange } from './recorder.ts';
import css from './recorder.module.css';
import type { Policy, Rack } from './types.ts';

const contents: Readonly<Record<Policy['content'], string>> = {
  none: 'none: that something was said, and when',
  metadata: 'metadata: also role, model, sizes and figures',
  full: 'full: also what was said, after redaction',
};

/** What a rack keeps, for how long, and what is taken out of it before. */
export function PolicyForm({ rack, close }: { rack: Rack; close: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(rack.policy));
  const change = useRackChange(rack.id);
  const policy = changeOf(draft, rack.policy);
  const fault = change.error ? asFault(change.error) : undefined;
  const faultAt = (path: string) =>
    fault?.violations
      .filter((violation) => violation.path === path || violation.path.startsWith(`${path}.`))
      .map(({ path: at, message }) =>
        at === path ? message : `line ${Number(at.split('.').at(-1)) + 1}: ${message}`,
      )
      .join('; ') || undefined;
  const bounds = [
    { name: 'days', label: 'Days', path: 'policy.retention.days' },
    { name: 'size', label: 'Size in MiB', path: 'policy.retention.bytes' },
    { name: 'events', label: 'Events', path: 'policy.retention.events' },
  ] as const;
  return (
    <form
      className={css['policy']}
      aria-label={`Policy of the rack ${rack.id}`}
      onSubmit={(event) => {
        event.preventDefault();
        if (policy) change.mutate({ policy }, { onSuccess: close });
      }}
    >
      <Field
        label="What is kept"
        fault={faultAt('policy.content')}
        hint="Counts from now on; what is there stays as it is."
      >
        {(control) => (
          <select
            {...control}
            value={draft.content}
            onChange={({ target }) => setDraft({ ...draft, content: target.value as Policy['content'] })}
          >
            {Object.entries(contents).map(([name, said]) => (
              <option key={name} value={name}>
                {said}
              </option>
            ))}
          </select>
        )}
      </Field>
      <fieldset className={css['bounds']}>
        <legend>Keep at most</legend>
        {bounds.map(({ name, label, path }) => (
          <Field key={name} label={label} fault={faultAt(path)}>
            {(control) => (
              <input
                {...control}
                type="number"
                min={0}
                step="any"
                required
                value={draft[name]}
                onChange={({ target }) => setDraft({ ...draft, [name]: target.value })}
              />
            )}
          </Field>
        ))}
      </fieldset>
      <Field
        label="Take out"
        fault={faultAt('policy.redact')}
        hint="A regular expression (RE2) a line; @credentials and @emails stand for sets of the host. What they match becomes [redacted] before it is written."
      >
        {(control) => (
          <textarea
            {...control}
            rows={4}
            spellCheck={false}
            value={draft.redact}
            onChange={({ target }) => setDraft({ ...draft, redact: target.value })}
          />
        )}
      </Field>
      {tightens(draft, rack.policy) && rack.events > 0 && (
        <p role="status">
          Tighter bounds count at once: the oldest events that are over them are removed when you save.
        </p>
      )}
      {change.isError && <FaultNote error={change.error} />}
      <Row>
        <Button type="submit" kind="primary" busy={change.isPending} disabled={!policy}>
          Save the policy
        </Button>
        <Button onClick={close}>Leave it as it was</Button>
      </Row>
    </form>
  );
}
