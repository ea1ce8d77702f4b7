import type { ReactNode } from 'react';
import { agentsCss as css, ToolBadge } from '../../agents/parts.tsx';
import { grants } from '../../agents/tools.ts';
import { asFault } from '../../api/fault.ts';
import { Badge, FaultNote, Field, Panel, Row } from '../../parts/index.tsx';
import { type AgentDraft, limits, linesOf, samplings } from './agent-draft.ts';
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
  write: (draft: AgentDraft) => void;
  mayRename?: boolean;
  error: unknown;
  send: () => void;
  foot: ReactNode;
}) {
  const { draft, write, mayRename = false, error, send, foot } = props;
  const fault = (path: string) =>
    error
      ? asFault(error).violations.find((one) => one.path === path || one.path.startsWith(`${path}.`))?.message
      : undefined;
  const set = (name: keyof AgentDraft) => (value: string) => write({ ...draft, [name]: value });
  const line = (
    name: keyof AgentDraft,
    label: string,
    path: string,
    more: { hint?: string; off?: boolean } = {},
  ) => (
    <Field label={label} fault={fault(path)} {...(more.hint === undefined ? {} : { hint: more.hint })}>
      {(control) => (
        <input
          {...control}
          spellCheck={false}
          disabled={more.off === true}
          placeholder={placeholders[name] ?? ''}
          value={draft[name]}
          onChange={({ target }) => set(name)(target.value)}
        />
      )}
    </Field>
  );
  const area = (name: keyof AgentDraft, label: string, path: string, hint?: string) => (
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
        send();
      }}
    >
      <div className={css['columns']}>
        <Panel title="General">
          <div className={css['fields']}>
            {line('name', 'Name', 'name', {
              off: !mayRename,
              ...(mayRename ? { hint: 'A lowercase letter, then lowercase letters, digits, - and _.' } : {}),
            })}
            {line('model', 'Model', 'model', { hint: 'resident, or the id of a gateway model.' })}
          </div>
          {line('description', 'Description', 'description')}
          {area('instructions', 'Instructions', 'instructions')}
          <fieldset className={css['checks']}>
            <legend>Budgets</legend>
            <div className={css['fields']}>
              {limits.map((name) => (
                <div key={name}>{line(name, name.replaceAll('_', ' '), `limits.${name}`)}</div>
              ))}
            </div>
          </fieldset>
          <fieldset className={css['checks']}>
            <legend>Sampling</legend>
            <div className={css['fields']}>
              {samplings.map((name) => (
                <div key={name}>{line(name, name.replaceAll('_', ' '), `sampling.${name}`)}</div>
              ))}
            </div>
          </fieldset>
        </Panel>
        <Panel title="Permissions">
          <Tools draft={draft} set={set} fault={fault('grants.tools')} choiceFault={fault('tool_choice')} />
          {area('read', 'Read paths', 'grants.read', hints.read)}
          {area('write', 'Write paths', 'grants.write', hints.write)}
          {area('network', 'Network hosts', 'grants.network', hints.network)}
          {area('auto_approve', 'Applied without approval', 'grants.auto_approve', hints.auto_approve)}
        </Panel>
      </div>
      {error !== null && error !== undefined && <FaultNote error={error} />}
      <Row>{foot}</Row>
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
  const globs = linesOf(draft.tools);
  const has = tools.data?.filter(({ name }) => globs.some((glob) => grants(glob, name))) ?? [];
  const lost = tools.data ? globs.filter((glob) => !tools.data.some(({ name }) => grants(glob, name))) : [];
  const names = new Set(['auto', 'required', ...has.map(({ name }) => name)]);
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
              ?.filter((tool) => !has.includes(tool))
              .map(({ name, availability }) => (
                <option key={name} value={name}>
                  {name} ({availability})
                </option>
              ))}
          </select>
        )}
      </Field>
      {has.map(({ name, availability, reason, description }) => (
        <div key={name} className={css['tool']}>
          <span>
            <code>{name}</code> <ToolBadge availability={availability} />
          </span>
          <span className={css['quiet']}>{reason ?? description}</span>
        </div>
      ))}
      {lost.map((glob) => (
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
            {has.map(({ name }) => (
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
