import { Link } from 'wouter';
import { agentsCss as css, ToolBadge } from '../../agents/parts.tsx';
import type { AgentSpec, Tool } from '../../agents/shapes.ts';
import { grants } from '../../agents/tools.ts';

/** The tools that an agent is granted, of which a task may have less. */
export function ToolChoice(props: {
  agent: AgentSpec | undefined;
  tools: readonly Tool[];
  withheld: ReadonlySet<string>;
  withhold: (names: ReadonlySet<string>) => void;
}) {
  const { agent, tools, withheld, withhold } = props;
  if (!agent) return null;
  const { auto_approve: unasked, read, write, network } = agent.grants;
  const places = [
    ['May read below', read],
    ['May write below', write],
    ['May reach', network],
  ] as const;
  return (
    <>
      <fieldset className={css['checks']}>
        <legend>Tools of this task</legend>
        {tools.length === 0 && (
          <p className={css['quiet']}>
            The agent {agent.name} is granted no tools: it answers from what the model knows.{' '}
            <Link href={`/console/tasks/agents/${agent.name}`}>Grant it some</Link>, or choose another agent.
          </p>
        )}
        {tools.map(({ name, description, availability, reason, destructive }) => (
          <div key={name} className={css['tool']}>
            <label>
              <input
                type="checkbox"
                checked={!withheld.has(name)}
                onChange={({ target }) => {
                  const next = new Set(withheld);
                  if (target.checked) next.delete(name);
                  else next.add(name);
                  withhold(next);
                }}
              />
              <code>{name}</code> <ToolBadge availability={availability} />
            </label>
            <span className={css['quiet']}>
              {destructive && unasked.some((glob) => grants(glob, name))
                ? 'Its changes are applied without asking: the agent has auto_approve for it.'
                : (reason ?? description)}
            </span>
          </div>
        ))}
      </fieldset>
      {places.map(
        ([label, entries]) =>
          entries.length > 0 && (
            <p key={label} className={css['quiet']}>
              {label}: {entries.join(', ')}
            </p>
          ),
      )}
    </>
  );
}
