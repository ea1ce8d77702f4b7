import { agentsCss as css } from '../../agents/parts.tsx';
import type { AgentSpec } from '../../agents/shapes.ts';
import { Field } from '../../parts/index.tsx';
import type { DraftFaults, TaskDraft } from './task-request.ts';

const numbers = [
  { name: 'max_turns', label: 'Max turns', of: 'limits', usual: 16 },
  { name: 'max_tokens', label: 'Max tokens', of: 'limits', usual: 'no limit' },
  { name: 'timeout_secs', label: 'Timeout (seconds)', of: 'limits', usual: 600 },
  { name: 'temperature', label: 'Temperature', of: 'sampling', usual: undefined },
  { name: 'seed', label: 'Seed', of: 'sampling', usual: undefined },
] as const;

/** Budgets, sampling, inputs and response format of a task. Empty fields use the values of the agent. */
export function Budgets(props: {
  draft: TaskDraft;
  write: (part: Partial<TaskDraft>) => void;
  faults: DraftFaults;
  refused: (path: string) => string | undefined;
  limits: AgentSpec['limits'];
}) {
  const { draft, write, faults, refused, limits } = props;
  return (
    <details className={css['fold']}>
      <summary>Budgets, sampling and response format</summary>
      <div className={css['form']}>
        <div className={css['fields']}>
          {numbers.map(({ name, label, of, usual }) => (
            <Field key={name} label={label} fault={faults[name] ?? refused(`${of}.${name}`)}>
              {(control) => (
                <input
                  {...control}
                  inputMode="decimal"
                  placeholder={of === 'limits' ? String(limits?.[name] ?? usual) : "the agent's"}
                  value={draft[name]}
                  onChange={({ target }) => write({ [name]: target.value })}
                />
              )}
            </Field>
          ))}
        </div>
        <Field
          label="Inputs"
          hint="A JSON object with named values that the model sees after the prompt."
          fault={faults.inputs ?? refused('inputs')}
        >
          {(control) => (
            <textarea
              {...control}
              className={`${control.className} ${css['line']}`}
              rows={1}
              spellCheck={false}
              value={draft.inputs}
              onChange={({ target }) => write({ inputs: target.value })}
            />
          )}
        </Field>
        <Field label="Response format">
          {(control) => (
            <select
              {...control}
              value={draft.answer}
              onChange={({ target }) => write({ answer: target.value as TaskDraft['answer'] })}
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
                onChange={({ target }) => write({ schema: target.value })}
              />
            )}
          </Field>
        )}
      </div>
    </details>
  );
}
