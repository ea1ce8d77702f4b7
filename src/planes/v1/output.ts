import type { GrammarSource } from '../../grammar/types.ts';
import type { Violation } from '../../http/error.ts';
import type { Json } from '../../util/json.ts';
import type { OutputBody } from '../../wires/core/output-schema.ts';

/** A grammar, and the request member that it comes from. */
export interface OutputConstraint {
  readonly grammar: GrammarSource;
  readonly member: string;
}

/** All output constraints of a request. */
function findConstraints(body: OutputBody): OutputConstraint[] {
  const constraints: OutputConstraint[] = [];
  const add = <Value>(
    member: string,
    value: Value | null | undefined,
    toGrammar: (value: Value) => GrammarSource,
  ) => {
    if (value !== null && value !== undefined) constraints.push({ member, grammar: toGrammar(value) });
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
    if (!nested && !format.schema) constraints.push({ member: 'response_format', grammar: { kind: 'json' } });
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
  return constraints;
}

export const toOutputConstraint = (body: OutputBody): OutputConstraint | undefined =>
  findConstraints(body)[0];

export function findOutputViolations(body: OutputBody): Violation[] {
  const format = body.response_format;
  const violations: Violation[] = [];
  if (format?.type === 'json_schema' && !format.json_schema && !format.schema) {
    violations.push({ path: 'response_format.json_schema', message: 'expected {schema}' });
  }
  const [first, second] = findConstraints(body);
  if (first && second) {
    const message = `${first.member} already constrains the answer; send only one of them`;
    violations.push({ path: second.member, message });
  }
  return violations;
}
