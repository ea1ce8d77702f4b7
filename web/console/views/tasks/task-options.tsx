import { agentsCss as css } from '../../agents/parts.tsx';
import type { AgentSpec } from '../../agents/schemas.ts';
import { Field } from '../../../ui/index.tsx';
import type { DraftFaults, TaskDraft } from './task-request.ts';

const numberFields = [
  { name: 'max_turns', label: 'Max turns', group: 'limits', defaultValue: 16 },
  { name: 'max_tokens', label: 'Max tokens', group: 'limits', defaultValue: 'no limit' },
  { name: 'timeout_secs', label: 'Timeout (seconds)', group: 'limits', defaultValue: 600 },
  { name: 'temperature', label: 'Temperature', group: 'sampling', defaultValue: undefined },
  { name: 'seed', label: 'Seed', group: 'sampling', defaultValue: undefined },
] as const;

/** Budgets, sampling, inputs and response format of a task. Empty fields use the values of the agent. */
export function TaskOptions(props: {
  draft: TaskDraft;
  onChange: (part: Partial<TaskDraft>) => void;
  faults: DraftFaults;
  hostFault: (path: string) => string | undefined;
  limits: AgentSpec['limits'];
}) {
  const { draft, onChange, faults, hostFault, limits } = props;
  return (
    <details className={css['fold']}>
      <summary>Budgets, sampling and response format</summary>
      <div className={css['form']}>
        <div className={css['fields']}>
          {numberFields.map(({ name, label, group, defaultValue }) => (
            <Field key={name} label={label} fault={faults[name] ?? hostFault(`${group}.${name}`)}>
              {(control) => (
                <input
                  {...control}
                  inputMode="decimal"
                  placeholder={group === 'limits' ? String(limits?.[name] ?? defaultValue) : "the agent's"}
                  value={draft[name]}
                  onChange={({ target }) => onChange({ [name]: target.value })}
                />
              )}
            </Field>
          ))}
        </div>
        <Field
          label="Inputs"
          hint="A JSON object with named values that the model sees after the prompt."
          fault={faults.inputs ?? hostFault('inputs')}
        >
          {(control) => (
            <textarea
              {...control}
              className={`${control.className} ${css['line']}`}
              rows={1}
              spellCheck={false}
              value={draft.inputs}
              onChange={({ target }) => onChange({ inputs: target.value })}
            />
          )}
        </Field>
        <Field label="Response format">
          {(control) => (
            <select
              {...control}
              value={draft.answer}
              onChange={({ target }) => onChange({ answer: target.value as TaskDraft['answer'] })}
            >
              <option value="text">text</option>
              <option value="json_object">any JSON object</option>
              <option value="json_schema">JSON that matches a schema</option>
            </select>
          )}
        </Field>
        {draft.answer === 'json_schema' && (
          <Field label="JSON schema" fault={faults.schema}>
            {(control) => (
              <textarea
                {...control}
                className={`${control.className} ${css['text']}`}
                rows={4}
                spellCheck={false}
                value={draft.schema}
                onChange={({ target }) => onChange({ schema: target.value })}
              />
            )}
          </Field>
        )}
      </div>
    </details>
  );
}
