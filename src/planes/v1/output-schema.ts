import { z } from 'zod';
import type { GrammarSource } from '../../grammar/types.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { list } from '../../http/schema/list.ts';
import { refuseHeavyJson } from '../../http/body.ts';
import { jsonRules } from '../../http/route-body.ts';
import type { Violation } from '../../http/error.ts';
import type { Json } from '../../util/json.ts';
import { flag, text } from '../../wires/core/members.ts';
import { unserved } from './request-schema.ts';

const mostGrammar = 100_000;
const grammarText = text.min(1, 'must not be empty').max(mostGrammar, `at most ${mostGrammar} characters`);
const schema = jsonObject('expected a JSON schema');
const choices = list(text.min(1, 'must not be empty'), {
  error: 'expected an array of texts',
  empty: 'must not be empty',
  most: { count: 1000, error: 'at most 1000 texts' },
});
const nameForm = 'expected a name of 1 to 64 letters, digits, underscores and dashes';
const jsonText = 'expected a JSON schema, or the text of one';

/** vLLM takes schemas as texts too. */
const schemaOrText = z.union(
  [
    schema,
    grammarText.transform((written, context) => {
      const parsed = schema.safeParse(parsedJson(written));
      if (parsed.success) return parsed.data;
      context.issues.push({ code: 'custom', message: jsonText, input: written });
      return z.NEVER;
    }),
  ],
  { error: jsonText },
);

function parsedJson(written: string): unknown {
  refuseHeavyJson(written, jsonRules);
  try {
    return JSON.parse(written) as unknown;
  } catch {
    return undefined;
  }
}

const responseFormat = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object'), schema: schema.nullish() }),
    z.object({
      type: z.literal('json_schema'),
      json_schema: z
        .object(
          {
            name: z
              .string({ error: nameForm })
              .regex(/^[\w-]{1,64}$/, nameForm)
              .nullish()
              .describe('Of no effect.'),
            description: text.nullish(),
            schema: schema.nullish().describe('Default: any object.'),
            strict: flag.nullish().describe('The schema is kept to the letter in either case.'),
          },
          { error: 'expected {schema}' },
        )
        .nullish(),
      schema: schema.nullish().describe("llama.cpp's way of writing it, in place of `json_schema`."),
    }),
  ],
  {
    error: "expected {type: 'text'}, {type: 'json_object'} or {type: 'json_schema', json_schema: {schema}}",
  },
);

/** What the answer must look like, under the names of OpenAI, llama.cpp, vLLM and SGLang. */
export const outputMembers = {
  response_format: responseFormat.nullish().describe('Text, a JSON object, or JSON that fits a schema.'),
  json_schema: schema.nullish().describe("llama.cpp's name for a JSON schema of the answer."),
  grammar: grammarText.nullish().describe("llama.cpp's: a grammar in GBNF, or in EBNF; it begins at `root`."),
  guided_json: schemaOrText.nullish().describe("vLLM's: a JSON schema."),
  guided_regex: grammarText.nullish().describe("vLLM's: a regular expression of the whole answer."),
  guided_choice: choices.nullish().describe("vLLM's: one of these texts."),
  guided_grammar: grammarText.nullish().describe("vLLM's: a grammar in EBNF; it begins at `root`."),
  ebnf: grammarText.nullish().describe("SGLang's name for `guided_grammar`."),
  regex: grammarText.nullish().describe("SGLang's name for `guided_regex`."),
  guided_whitespace_pattern: unserved('guided_whitespace_pattern'),
  structured_outputs: z
    .object(
      {
        json: schemaOrText.nullish(),
        json_object: flag.nullish(),
        regex: grammarText.nullish(),
        choice: choices.nullish(),
        grammar: grammarText.nullish(),
        structural_tag: unserved('structural_tag'),
        whitespace_pattern: unserved('whitespace_pattern'),
      },
      { error: 'expected an object with one of json, regex, choice, grammar and json_object' },
    )
    .nullish()
    .describe("vLLM's newer way of writing the `guided_` members."),
};
type OutputBody = z.infer<z.ZodObject<typeof outputMembers>>;

/** A grammar, and the member of the body that it comes from. */
export interface Output {
  readonly grammar: GrammarSource;
  readonly member: string;
}

/** All that the request asks of the answer's form. */
function outputs(body: OutputBody): Output[] {
  const found: Output[] = [];
  const add = <Value>(
    member: string,
    value: Value | null | undefined,
    to: (value: Value) => GrammarSource,
  ) => {
    if (value !== null && value !== undefined) found.push({ member, grammar: to(value) });
  };
  const bySchema = (value: Json): GrammarSource => ({ kind: 'json_schema', schema: value });
  const ebnf = (rules: string): GrammarSource => ({ kind: 'ebnf', text: rules });
  const regex = (pattern: string): GrammarSource => ({ kind: 'regex', pattern });
  const choice = (texts: readonly string[]): GrammarSource => ({ kind: 'choice', texts });
  const format = body.response_format;
  if (format && format.type !== 'text') {
    const nested = format.type === 'json_schema' ? format.json_schema?.schema : undefined;
    add('response_format.json_schema.schema', nested, bySchema);
    add('response_format.schema', format.schema, bySchema);
    if (!nested && !format.schema) found.push({ member: 'response_format', grammar: { kind: 'json' } });
  }
  add('json_schema', body.json_schema, bySchema);
  add('grammar', body.grammar, ebnf);
  add('guided_json', body.guided_json, bySchema);
  add('guided_regex', body.guided_regex, regex);
  add('guided_choice', body.guided_choice, choice);
  add('guided_grammar', body.guided_grammar, ebnf);
  add('ebnf', body.ebnf, ebnf);
  add('regex', body.regex, regex);
  const structured = body.structured_outputs ?? {};
  add('structured_outputs.json', structured.json, bySchema);
  add('structured_outputs.json_object', structured.json_object || undefined, () => ({ kind: 'json' }));
  add('structured_outputs.regex', structured.regex, regex);
  add('structured_outputs.choice', structured.choice, choice);
  add('structured_outputs.grammar', structured.grammar, ebnf);
  return found;
}

export const toOutput = (body: OutputBody): Output | undefined => outputs(body)[0];

export function outputViolations(body: OutputBody): Violation[] {
  const format = body.response_format;
  const wrong: Violation[] = [];
  if (format?.type === 'json_schema' && !format.json_schema && !format.schema) {
    wrong.push({ path: 'response_format.json_schema', message: 'expected {schema}' });
  }
  const [first, second] = outputs(body);
  if (first && second) {
    const message = `${first.member} already says what the answer must look like; send one of them`;
    wrong.push({ path: second.member, message });
  }
  return wrong;
}
