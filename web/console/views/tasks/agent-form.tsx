import type { ReactNode } from 'react';
import { agentsCss as css, ToolBadge } from '../../agents/parts.tsx';
import { matchesGlob } from '../../agents/tools.ts';
import { asFault } from '../../../api/fault.ts';
import { Badge, FaultNote, Field, Panel, Row } from '../../../ui/index.tsx';
import { type AgentDraft, limits, splitLines, samplingNames } from './agent-draft.ts';
import { useTools } from './use-agents.ts';

const hints = {
  read: 'Absolute paths. Everything below them can be read.',
  write: 'Absolute paths. Everything below them can be read, and written after approval.',
  network: 'Host names. *.example.com matches all subdomains, host:port a single port.',
  auto_approve: 'Tools whose changes are applied without approval. Leave it empty unless you are sure.',
} as const;
const placeholders: Readonly<Record<string, string>> = {
  max_turns: '16',
  max_tokens: 'no limit',
  timeout_secs: '600',
};

export function AgentForm(props: {
  draft: AgentDraft;
  onChange: (draft: AgentDraft) => void;
  canRename?: boolean;
  error: unknown;
  onSubmit: () => void;
  footer: ReactNode;
}) {
  const { draft, onChange, canRename = false, error, onSubmit, footer } = props;
  const fault = (path: string) =>
    error
      ? asFault(error).violations.find((one) => one.path === path || one.path.startsWith(`${path}.`))?.message
      : undefined;
  const set = (name: keyof AgentDraft) => (value: string) => onChange({ ...draft, [name]: value });
  const inputField = (
    name: keyof AgentDraft,
    label: string,
    path: string,
    options: { hint?: string; isDisabled?: boolean } = {},
  ) => (
    <Field label={label} fault={fault(path)} {...(options.hint === undefined ? {} : { hint: options.hint })}>
      {(control) => (
        <input
          {...control}
          spellCheck={false}
          disabled={options.isDisabled === true}
          placeholder={placeholders[name] ?? ''}
          value={draft[name]}
          onChange={({ target }) => set(name)(target.value)}
        />
      )}
    </Field>
  );
  const textAreaField = (name: keyof AgentDraft, label: string, path: string, hint?: string) => (
    <Field label={label} fault={fault(path)} {...(hint === undefined ? {} : { hint })}>
      {(control) => (
        <textarea
          {...control}
          className={`${control.className} ${name === 'instructions' ? css['text'] : css['line']}`}
          rows={name === 'instructions' ? 5 : 1}
          spellCheck={name === 'instructions'}
          value={draft[name]}
          onChange={({ target }) => set(name)(target.value)}
        />
      )}
    </Field>
  );
  return (
    <form
      className={css['stack']}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      <div className={css['columns']}>
        <Panel title="General">
          <div className={css['fields']}>
            {inputField('name', 'Name', 'name', {
              isDisabled: !canRename,
              ...(canRename ? { hint: 'A lowercase letter, then lowercase letters, digits, - and _.' } : {}),
            })}
            {inputField('model', 'Model', 'model', { hint: 'resident, or the id of a gateway model.' })}
          </div>
          {inputField('description', 'Description', 'description')}
          {textAreaField('instructions', 'Instructions', 'instructions')}
          <fieldset className={css['checks']}>
            <legend>Budgets</legend>
            <div className={css['fields']}>
              {limits.map((name) => (
                <div key={name}>{inputField(name, name.replaceAll('_', ' '), `limits.${name}`)}</div>
              ))}
            </div>
          </fieldset>
          <fieldset className={css['checks']}>
            <legend>Sampling</legend>
            <div className={css['fields']}>
              {samplingNames.map((name) => (
                <div key={name}>{inputField(name, name.replaceAll('_', ' '), `sampling.${name}`)}</div>
              ))}
            </div>
          </fieldset>
        </Panel>
        <Panel title="Permissions">
          <Tools draft={draft} set={set} fault={fault('grants.tools')} choiceFault={fault('tool_choice')} />
          {textAreaField('read', 'Read paths', 'grants.read', hints.read)}
          {textAreaField('write', 'Write paths', 'grants.write', hints.write)}
          {textAreaField('network', 'Network hosts', 'grants.network', hints.network)}
          {textAreaField(
            'auto_approve',
            'Applied without approval',
            'grants.auto_approve',
            hints.auto_approve,
          )}
        </Panel>
      </div>
      {error !== null && error !== undefined && <FaultNote error={error} />}
      <Row>{footer}</Row>
    </form>
  );
}

function Tools(props: {
  draft: AgentDraft;
  set: (name: keyof AgentDraft) => (value: string) => void;
  fault: string | undefined;
  choiceFault: string | undefined;
}) {
  const { draft, set, fault, choiceFault } = props;
  const tools = useTools();
  const globs = splitLines(draft.tools);
  const grantedNow = tools.data?.filter(({ name }) => globs.some((glob) => matchesGlob(glob, name))) ?? [];
  const unmatchedGlobs = tools.data
    ? globs.filter((glob) => !tools.data.some(({ name }) => matchesGlob(glob, name)))
    : [];
  const names = new Set(['auto', 'required', ...grantedNow.map(({ name }) => name)]);
  return (
    <>
      <Field
        label="Tools"
        fault={fault}
        hint="One name per line. * matches any characters: fs_* is all file tools."
      >
        {(control) => (
          <textarea
            {...control}
            className={`${control.className} ${css['line']}`}
            rows={2}
            spellCheck={false}
            value={draft.tools}
            onChange={({ target }) => set('tools')(target.value)}
          />
        )}
      </Field>
      <Field label="Add a tool">
        {(control) => (
          <select
            {...control}
            value=""
            onChange={({ target }) => set('tools')([...globs, target.value].join('\n'))}
          >
            <option value="">choose one</option>
            {tools.data
              ?.filter((tool) => !grantedNow.includes(tool))
              .map(({ name, availability }) => (
                <option key={name} value={name}>
                  {name} ({availability})
                </option>
              ))}
          </select>
        )}
      </Field>
      {grantedNow.map(({ name, availability, reason, description }) => (
        <div key={name} className={css['tool']}>
          <span>
            <code>{name}</code> <ToolBadge availability={availability} />
          </span>
          <span className={css['quiet']}>{reason ?? description}</span>
        </div>
      ))}
      {unmatchedGlobs.map((glob) => (
        <p key={glob}>
          <Badge tone="warn">no such tool</Badge> <code>{glob}</code> matches no tool of this host.
        </p>
      ))}
      <Field label="First turn" hint="Whether the first answer must be a tool call." fault={choiceFault}>
        {(control) => (
          <select
            {...control}
            value={draft.tool_choice}
            onChange={({ target }) => set('tool_choice')(target.value)}
          >
            <option value="">default (the model chooses)</option>
            <option value="auto">auto: the model chooses</option>
            <option value="required">required: any tool</option>
            {!names.has(draft.tool_choice) && draft.tool_choice !== '' && (
              <option value={draft.tool_choice}>{draft.tool_choice} (not granted)</option>
            )}
            {grantedNow.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </Field>
    </>
  );
}
