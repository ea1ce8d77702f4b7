import { z } from 'zod';
import { jsonObject } from '../../http/schema/json-object.ts';
import { list } from '../../http/schema/list.ts';
import { refuseHeavyJson } from '../../http/body.ts';
import { jsonRules } from '../../http/route-body.ts';
import { flag, text } from './members.ts';
import { unsupportedMember } from './sampling-schema.ts';

const maxGrammar = 100_000;
const grammarText = text.min(1, 'must not be empty').max(maxGrammar, `at most ${maxGrammar} characters`);
const schema = jsonObject('expected a JSON schema');
const choices = list(text.min(1, 'must not be empty'), {
  error: 'expected an array of texts',
  empty: 'must not be empty',
  max: { count: 1000, error: 'at most 1000 texts' },
});
const nameError = 'expected a name of 1 to 64 letters, digits, underscores and dashes';
const schemaOrTextError = 'expected a JSON schema, or the text of one';

/** vLLM also accepts schemas as JSON text. */
const schemaOrText = z.union(
  [
    schema,
    grammarText.transform((json, context) => {
      const parsed = schema.safeParse(parseSchemaText(json));
      if (parsed.success) return parsed.data;
      context.issues.push({ code: 'custom', message: schemaOrTextError, input: json });
      return z.NEVER;
    }),
  ],
  { error: schemaOrTextError },
);

function parseSchemaText(json: string): unknown {
  refuseHeavyJson(json, jsonRules);
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}

export const responseFormat = z.discriminatedUnion(
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
              .string({ error: nameError })
              .regex(/^[\w-]{1,64}$/, nameError)
              .nullish()
              .describe('Has no effect.'),
            description: text.nullish(),
            schema: schema.nullish().describe('Default: any object.'),
            strict: flag.nullish().describe('The schema is enforced in either case.'),
          },
          { error: 'expected {schema}' },
        )
        .nullish(),
      schema: schema.nullish().describe("llama.cpp's form, instead of `json_schema`."),
    }),
  ],
  {
    error: "expected {type: 'text'}, {type: 'json_object'} or {type: 'json_schema', json_schema: {schema}}",
  },
);

/** Members that constrain the answer, under the names of OpenAI, llama.cpp, vLLM and SGLang. */
export const outputMembers = {
  response_format: responseFormat.nullish().describe('Text, a JSON object, or JSON that fits a schema.'),
  json_schema: schema.nullish().describe("llama.cpp's name for a JSON schema of the answer."),
  grammar: grammarText
    .nullish()
    .describe("llama.cpp's member: a grammar in GBNF or EBNF with the start rule `root`."),
  guided_json: schemaOrText.nullish().describe("vLLM's member: a JSON schema."),
  guided_regex: grammarText
    .nullish()
    .describe("vLLM's member: a regular expression that matches the whole answer."),
  guided_choice: choices.nullish().describe("vLLM's member: the answer is one of these texts."),
  guided_grammar: grammarText
    .nullish()
    .describe("vLLM's member: a grammar in EBNF with the start rule `root`."),
  ebnf: grammarText.nullish().describe("SGLang's name for `guided_grammar`."),
  regex: grammarText.nullish().describe("SGLang's name for `guided_regex`."),
  guided_whitespace_pattern: unsupportedMember('guided_whitespace_pattern'),
  structured_outputs: z
    .object(
      {
        json: schemaOrText.nullish(),
        json_object: flag.nullish(),
        regex: grammarText.nullish(),
        choice: choices.nullish(),
        grammar: grammarText.nullish(),
        structural_tag: unsupportedMember('structural_tag'),
        whitespace_pattern: unsupportedMember('whitespace_pattern'),
      },
      { error: 'expected an object with one of json, regex, choice, grammar and json_object' },
    )
    .nullish()
    .describe("vLLM's newer form of the `guided_` members."),
};
export type OutputBody = z.infer<z.ZodObject<typeof outputMembers>>;
