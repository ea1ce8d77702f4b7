import type { TurnPosition } from '../../../chat/tree.ts';
import { MessageView } from '../../../chat/message.tsx';
import { Versions } from '../../../chat/versions.tsx';
import type { Turn, UserTurn } from './answer.ts';
import css from './chat.module.css';

/** A message of the user, or the results of tool calls in its place. */
export function UserTurnView(props: {
  turn: UserTurn;
  versions: readonly Turn[];
  isBusy: boolean;
  edit: (turn: TurnPosition, text: string) => void;
  choose: (turn: TurnPosition) => void;
}) {
  const { turn, versions, choose } = props;
  if (!turn.toolResults) return <MessageView {...props} />;
  return (
    <article className={css['answer']} aria-label="Tool results">
      {turn.toolResults.map(({ id, name, content }) => (
        <details key={id} className={css['fold']}>
          <summary>
            Result of <code>{name}</code>
          </summary>
          <div className={css['folded']}>
            <pre tabIndex={0} role="region" aria-label={`Result of ${name}`}>
              {content}
            </pre>
          </div>
        </details>
      ))}
      <Versions versions={versions} shown={turn} what="results" choose={choose} />
    </article>
  );
}
