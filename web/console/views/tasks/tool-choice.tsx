import { Link } from 'wouter';
import { agentsCss as css, ToolBadge } from '../../agents/parts.tsx';
import type { AgentSpec, Tool } from '../../agents/schemas.ts';
import { matchesGlob } from '../../agents/tools.ts';

/** The tools of an agent, each of which can be withheld from the task. */
export function ToolChoice(props: {
  agent: AgentSpec | undefined;
  tools: readonly Tool[];
  withheld: ReadonlySet<string>;
  onWithhold: (names: ReadonlySet<string>) => void;
}) {
  const { agent, tools, withheld, onWithhold } = props;
  if (!agent) return null;
  const { auto_approve: autoApproved, read, write, network } = agent.grants;
  const accessLists = [
    ['Can read below', read],
    ['Can write below', write],
    ['Can connect to', network],
  ] as const;
  return (
    <>
      <fieldset className={css['checks']}>
        <legend>Tools of this task</legend>
        {tools.length === 0 && (
          <p className={css['quiet']}>
            The agent {agent.name} has no tools and answers from the model alone.{' '}
            <Link href={`/console/tasks/agents/${agent.name}`}>Grant it tools</Link>, or choose another agent.
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
                  onWithhold(next);
                }}
              />
              <code>{name}</code> <ToolBadge availability={availability} />
            </label>
            <span className={css['quiet']}>
              {destructive && autoApproved.some((glob) => matchesGlob(glob, name))
                ? 'Changes are applied without approval: auto_approve of the agent includes this tool.'
                : (reason ?? description)}
            </span>
          </div>
        ))}
      </fieldset>
      {accessLists.map(
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
