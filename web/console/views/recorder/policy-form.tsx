import { useState } from 'react';
import { asFault } from '../../../api/fault.ts';
import { Button, FaultNote, Field, Row } from '../../../ui/index.tsx';
import { changedMembers, draftOf, lowersLimits } from './policy-draft.ts';
import { useRackChange } from './recorder.ts';
import css from './recorder.module.css';
import type { Policy, Rack } from './types.ts';

const contentTexts: Readonly<Record<Policy['content'], string>> = {
  none: 'none: only that an event happened, and when',
  metadata: 'metadata: also role, model, sizes and metrics',
  full: 'full: also the content, after redaction',
};

/** Form for the policy of a rack: content, retention and redaction. */
export function PolicyForm({ rack, onClose }: { rack: Rack; onClose: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(rack.policy));
  const change = useRackChange(rack.id);
  const policy = changedMembers(draft, rack.policy);
  const fault = change.error ? asFault(change.error) : undefined;
  const faultAt = (path: string) =>
    fault?.violations
      .filter((violation) => violation.path === path || violation.path.startsWith(`${path}.`))
      .map(({ path: at, message }) =>
        at === path ? message : `line ${Number(at.split('.').at(-1)) + 1}: ${message}`,
      )
      .join('; ') || undefined;
  const limits = [
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
        if (policy) change.mutate({ policy }, { onSuccess: onClose });
      }}
    >
      <Field
        label="Stored content"
        fault={faultAt('policy.content')}
        hint="Applies to new events. Stored events do not change."
      >
        {(control) => (
          <select
            {...control}
            value={draft.content}
            onChange={({ target }) => setDraft({ ...draft, content: target.value as Policy['content'] })}
          >
            {Object.entries(contentTexts).map(([name, text]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        )}
      </Field>
      <fieldset className={css['bounds']}>
        <legend>Retention limits</legend>
        {limits.map(({ name, label, path }) => (
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
        label="Redact"
        fault={faultAt('policy.redact')}
        hint="One regular expression (RE2) per line; @credentials and @emails are predefined sets. Matches are replaced by [redacted] before they are stored."
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
      {lowersLimits(draft, rack.policy) && rack.events > 0 && (
        <p role="status">Lower limits take effect when you save: the oldest events above them are deleted.</p>
      )}
      {change.isError && <FaultNote error={change.error} />}
      <Row>
        <Button type="submit" kind="primary" busy={change.isPending} disabled={!policy}>
          Save the policy
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </Row>
    </form>
  );
}
