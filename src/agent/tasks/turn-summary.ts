import type { TaskDetail } from '../shapes/task.ts';
import type { TurnEvent } from '../shapes/turn-event.ts';

/** Maximum characters of a turn's text. */
const maxText = 2000;

interface ToolCallSummary {
  readonly id: string;
  readonly tool: string;
  ok?: boolean;
  pendingId?: string;
}

/** Summarizes the turns of a task: text and tool calls. */
export async function summarizeTurns(events: AsyncIterable<TurnEvent>): Promise<TaskDetail['turns']> {
  const turns: { readonly n: number; text: string; readonly calls: ToolCallSummary[] }[] = [];
  for await (const event of events) {
    const turn = turns.at(-1);
    if (event.type === 'turn') turns.push({ n: event.n, text: '', calls: [] });
    else if (event.type === 'delta' && turn && turn.text.length < maxText) turn.text += event.text;
    else if (event.type === 'retrying' && turn) turn.text = '';
    else if (event.type === 'tool_call') turn?.calls.push({ id: event.call_id, tool: event.tool });
    else if (event.type === 'staged') updateCall(turn?.calls.at(-1), { pendingId: event.pending_id });
    else if (event.type === 'tool_result')
      updateCall(
        turn?.calls.find(({ id }) => id === event.call_id),
        { ok: event.ok },
      );
  }
  return turns.map(({ n, text, calls }) => ({
    n,
    ...(text === '' ? {} : { text: text.slice(0, maxText) }),
    tool_calls: calls.map(({ tool, ok, pendingId }) => ({
      tool,
      ...(ok === undefined ? {} : { ok }),
      ...(pendingId === undefined ? {} : { pending_id: pendingId }),
    })),
  }));
}

function updateCall(call: ToolCallSummary | undefined, changes: Partial<ToolCallSummary>): void {
  if (call) Object.assign(call, changes);
}
