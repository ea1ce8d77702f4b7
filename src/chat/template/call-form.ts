import type { ChatTemplate } from '../../engine/index.ts';
import { type CallForm, inOrder, probe, probeMessages, probeTool, tried } from './probe.ts';

const forms: readonly CallForm[] = [true, false].flatMap((together) =>
  (['object', 'text'] as const).flatMap((argumentsAs) =>
    (['', null] as const).map((noContent) => ({
      together,
      arguments: argumentsAs,
      noContent,
      shortIds: false,
      content: 'same' as const,
    })),
  ),
);

/** Finds the message shape in which a template renders calls, arguments and results without loss; undefined if none. */
export function findCallForm(template: ChatTemplate): CallForm | undefined {
  const found = forms.find((form) => writesCalls(template, form));
  if (!found) return undefined;
  const form = quieter(template, found);
  const longIds = tried(template, probeMessages(form, { id: 'call_0123456789abcdefghijk' }), {
    tools: [probeTool],
  });
  const withIds: CallForm = { ...form, shortIds: longIds === undefined };
  const places = (['same', 'before', 'lost'] as const).map((content) => ({ ...withIds, content }));
  return places.find((one) => keepsSaying(template, one)) ?? { ...withIds, content: 'lost' };
}

function writesCalls(template: ChatTemplate, form: CallForm): boolean {
  const rendered = tried(template, probeMessages(form), { tools: [probeTool] });
  if (rendered === undefined) return false;
  // Check only the conversation: tool descriptions may be rendered in any way.
  const written = rendered.slice(rendered.indexOf(probe.question), rendered.indexOf(probe.answer));
  if (/\\"probe_key|\[object |\{'probe_key'/.test(written)) return false;
  const [firstValue, secondValue] = probe.values;
  const [firstResult, secondResult] = probe.results;
  const calls = form.together
    ? [firstValue, secondValue, firstResult, secondResult]
    : [firstValue, firstResult, secondValue, secondResult];
  return inOrder(rendered, [probe.question, ...calls, probe.answer, probe.lastQuestion]);
}

/** Prefers null over empty content when it renders shorter: some templates write an extra empty turn for ''. */
function quieter(template: ChatTemplate, form: CallForm): CallForm {
  const without: CallForm = { ...form, noContent: null };
  if (form.noContent === null || !writesCalls(template, without)) return form;
  const length = (one: CallForm) =>
    tried(template, probeMessages(one), { tools: [probeTool] })?.length ?? Number.POSITIVE_INFINITY;
  return length(without) < length(form) ? without : form;
}

function keepsSaying(template: ChatTemplate, form: CallForm): boolean {
  const rendered = tried(template, probeMessages(form, { saying: probe.saying }), { tools: [probeTool] });
  return inOrder(rendered, [probe.saying, probe.values[0], probe.results[0]]);
}
