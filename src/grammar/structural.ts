import {
  choice,
  empty,
  type Expression,
  optional,
  repeat,
  rule,
  sequence,
  set,
  text,
} from './ebnf/expression.ts';
import { addGrammar } from './ebnf/read.ts';
import type { Rules } from './ebnf/rules.ts';
import { addJsonSchema } from './json-schema/index.ts';
import { both, not, toAutomaton } from './regex/automaton.ts';
import { parseRegex } from './regex/parse.ts';
import { writeAutomaton } from './regex/write.ts';
import { GrammarError, type StructuralFormat, type StructuralTag } from './types.ts';

const mostDepth = 50;

/**
 * Adds the rules of a structural format: free text with tagged parts.
 * @returns the name of the root rule
 * @throws GrammarError `invalid_grammar`
 */
export function addStructural(rules: Rules, format: StructuralFormat): string {
  return rules.add('format', new StructuralWriter(rules).write(format, undefined, 0));
}

class StructuralWriter {
  readonly #rules: Rules;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  /** @param ends texts that must follow, included in the result; undefined when nothing must follow */
  write(format: StructuralFormat, ends: readonly string[] | undefined, depth: number): Expression {
    if (depth > mostDepth) throw invalid(`formats are nested deeper than ${mostDepth} levels`);
    const inner = (one: StructuralFormat, followed: readonly string[] | undefined) =>
      this.write(one, followed, depth + 1);
    const end = ends ? choice(...ends.map(text)) : empty;
    switch (format.type) {
      case 'const_string':
        return sequence(text(format.value), end);
      case 'json_schema':
        return sequence(rule(addJsonSchema(this.#rules, schemaToKeep(this.#rules, format))), end);
      case 'grammar':
        return sequence(rule(addGrammar(this.#rules, format.grammar)), end);
      case 'regex':
        return sequence(parseRegex(format.pattern, 'whole'), end);
      case 'any_text':
        return this.#anyText(format.excludes ?? [], ends);
      case 'or':
        return choice(...format.elements.map((one) => inner(one, ends)));
      case 'tag':
        return sequence(this.#tag(format, '', depth), end);
      case 'sequence':
        return this.#sequence(format.elements, ends, depth);
      case 'tags_with_separator': {
        const tag = choice(...format.tags.map((one) => this.#tag(one, '', depth)));
        const more = format.stop_after_first ? empty : repeat(sequence(text(format.separator), tag), 0);
        const list = sequence(tag, more);
        return sequence(format.at_least_one ? list : optional(list), end);
      }
      case 'triggered_tags':
        return this.#triggered(format, ends, depth);
    }
  }

  #sequence(
    elements: readonly StructuralFormat[],
    ends: readonly string[] | undefined,
    depth: number,
  ): Expression {
    const parts: Expression[] = [];
    for (let index = 0; index < elements.length; index++) {
      const element = elements[index] as StructuralFormat;
      const next = elements[index + 1];
      if (!next) {
        parts.push(this.write(element, ends, depth + 1));
        return sequence(...parts);
      }
      if (!isUnlimited(element)) {
        parts.push(this.write(element, undefined, depth + 1));
        continue;
      }
      if (next.type !== 'const_string' || next.value === '')
        throw invalid(
          "free text inside a sequence must be followed by a non-empty 'const_string', which ends it",
        );
      // The free text includes the text that ends it.
      const last = index + 2 === elements.length && ends;
      const endings = last ? ends.map((one) => next.value + one) : [next.value];
      parts.push(this.write(element, endings, depth + 1));
      index++;
    }
    return elements.length === 0 && ends ? choice(...ends.map(text)) : sequence(...parts);
  }

  /** @param writtenPrefix the part of `begin` that is already written */
  #tag(tag: StructuralTag, begun: string, depth: number): Expression {
    const ends = typeof tag.end === 'string' ? [tag.end] : tag.end;
    if (ends.length === 0) throw invalid(`the tag '${tag.begin}' has no end`);
    const open = ends.includes('') && isUnlimited(tag.content);
    if (open) throw invalid(`the tag '${tag.begin}' contains free text, so its end must not be empty`);
    return sequence(text(tag.begin.slice(begun.length)), this.write(tag.content, ends, depth + 1));
  }

  #anyText(excludes: readonly string[], ends: readonly string[] | undefined): Expression {
    const wanted = excludes.filter((one) => one !== '');
    if (ends?.includes('')) return this.#anyText(excludes, undefined);
    if (wanted.length === 0) return this.#free([], ends, true);
    const anything = repeat(set([[0, 0x10ffff]]), 0);
    const holding = (texts: readonly string[]) =>
      toAutomaton(sequence(anything, choice(...texts.map(text)), anything));
    let found = not(holding(wanted));
    if (ends) {
      const before = toAutomaton(sequence(anything, choice(...ends.map(text))));
      const twice = toAutomaton(
        sequence(anything, choice(...ends.map(text)), set([[0, 0x10ffff]]), anything),
      );
      found = both(found, both(before, not(twice)));
    }
    return writeAutomaton(this.#rules, found, empty);
  }

  #triggered(
    format: StructuralFormat & { type: 'triggered_tags' },
    ends: readonly string[] | undefined,
    depth: number,
  ): Expression {
    const { triggers, tags, at_least_one: needed = false, stop_after_first: once = false } = format;
    for (const tag of tags) {
      if (triggers.filter((trigger) => tag.begin.startsWith(trigger)).length !== 1)
        throw invalid(`the tag '${tag.begin}' must begin with exactly one of the triggers`);
    }
    const end = ends ? choice(...ends.map(text)) : empty;
    const first = choice(...tags.map((tag) => this.#tag(tag, '', depth)));
    if (needed && once) return sequence(first, end);
    if (once && ends) throw invalid("'stop_after_first' inside a tag requires 'at_least_one'");
    const bound = triggers.map((trigger) => ({
      text: trigger,
      rule: this.#rules.add(
        'tags',
        choice(
          ...tags
            .filter(({ begin }) => begin.startsWith(trigger))
            .map((tag) => this.#tag(tag, trigger, depth)),
        ),
      ),
    }));
    const free = this.#free(bound, ends, !once);
    return needed ? sequence(first, free) : free;
  }

  #free(
    triggers: readonly { text: string; rule: string }[],
    ends: readonly string[] | undefined,
    again: boolean,
  ): Expression {
    const marks = [...triggers.map((one) => one.text), ...(ends ?? [])];
    for (const [index, mark] of marks.entries()) {
      if (mark === '') throw invalid('a trigger or an end of free text must not be empty');
      const other = marks.find((one, at) => at !== index && one.includes(mark));
      if (other !== undefined)
        throw invalid(`'${mark}' is part of '${other}', so the two cannot be distinguished`);
    }
    if (triggers.length === 0 && !ends) return repeat(set([[0, 0x10ffff]]), 0);
    return rule(this.#rules.add('free', { kind: 'free', triggers, stops: ends ?? [], again }));
  }
}

/** The schema of a format, or its `otherwise` schema when the grammar cannot enforce it. */
function schemaToKeep(rules: Rules, format: StructuralFormat & { type: 'json_schema' }): unknown {
  if (!('otherwise' in format)) return format.json_schema;
  try {
    const trial = rules.trial();
    const root = addJsonSchema(trial, format.json_schema);
    if (trial.print(root) !== undefined) return format.json_schema;
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
  }
  return format.otherwise;
}

function isUnlimited(format: StructuralFormat): boolean {
  switch (format.type) {
    case 'any_text':
      return true;
    case 'triggered_tags':
      return !(format.at_least_one && format.stop_after_first);
    case 'sequence': {
      const last = format.elements.at(-1);
      return last !== undefined && isUnlimited(last);
    }
    case 'or':
      return format.elements.some(isUnlimited);
    case 'const_string':
    case 'json_schema':
    case 'grammar':
    case 'regex':
    case 'tag':
    case 'tags_with_separator':
      return false;
  }
}

const invalid = (why: string): GrammarError =>
  new GrammarError('invalid_grammar', `structural format: ${why}`);
