import type { ChatTemplate } from '../../engine/index.ts';
import {
  type CallMessageShape,
  containsInOrder,
  probe,
  probeMessages,
  probeTool,
  tryRender,
} from './probe.ts';

const shapes: readonly CallMessageShape[] = [true, false].flatMap((together) =>
  (['object', 'text'] as const).flatMap((argumentsType) =>
    (['', null] as const).map((noContent) => ({
      isOneMessage: together,
      arguments: argumentsType,
      noContent,
      shortIds: false,
      content: 'same' as const,
    })),
  ),
);

/** Finds the message shape in which a template renders calls, arguments and results without loss; undefined if none. */
export function findCallMessageShape(template: ChatTemplate): CallMessageShape | undefined {
  const firstShape = shapes.find((shape) => rendersCalls(template, shape));
  if (!firstShape) return undefined;
  const shape = preferNullContent(template, firstShape);
  const longIdResult = tryRender(template, probeMessages(shape, { id: 'call_0123456789abcdefghijk' }), {
    tools: [probeTool],
  });
  const withIds: CallMessageShape = { ...shape, shortIds: longIdResult === undefined };
  const contentShapes = (['same', 'before', 'lost'] as const).map((content) => ({ ...withIds, content }));
  return (
    contentShapes.find((candidate) => rendersContent(template, candidate)) ?? { ...withIds, content: 'lost' }
  );
}

function rendersCalls(template: ChatTemplate, shape: CallMessageShape): boolean {
  const rendered = tryRender(template, probeMessages(shape), { tools: [probeTool] });
  if (rendered === undefined) return false;
  // Check only the conversation: tool descriptions may be rendered in any way.
  const written = rendered.slice(rendered.indexOf(probe.question), rendered.indexOf(probe.answer));
  if (/\\"probe_key|\[object |\{'probe_key'/.test(written)) return false;
  const [firstValue, secondValue] = probe.values;
  const [firstResult, secondResult] = probe.results;
  const calls = shape.isOneMessage
    ? [firstValue, secondValue, firstResult, secondResult]
    : [firstValue, firstResult, secondValue, secondResult];
  return containsInOrder(rendered, [probe.question, ...calls, probe.answer, probe.lastQuestion]);
}

/** Prefers null over empty content when it renders shorter: some templates write an extra empty turn for ''. */
function preferNullContent(template: ChatTemplate, shape: CallMessageShape): CallMessageShape {
  const nullContentShape: CallMessageShape = { ...shape, noContent: null };
  if (shape.noContent === null || !rendersCalls(template, nullContentShape)) return shape;
  const length = (candidate: CallMessageShape) =>
    tryRender(template, probeMessages(candidate), { tools: [probeTool] })?.length ?? Number.POSITIVE_INFINITY;
  return length(nullContentShape) < length(shape) ? nullContentShape : shape;
}

function rendersContent(template: ChatTemplate, shape: CallMessageShape): boolean {
  const rendered = tryRender(template, probeMessages(shape, { callText: probe.callText }), {
    tools: [probeTool],
  });
  return containsInOrder(rendered, [probe.callText, probe.values[0], probe.results[0]]);
}
