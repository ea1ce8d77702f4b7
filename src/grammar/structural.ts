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
import { addEbnfGrammar } from './ebnf/read-ebnf.ts';
import type { GrammarBuilder } from './ebnf/grammar-builder.ts';
import { addJsonSchema } from './json-schema/index.ts';
import { intersectAutomata, complementAutomaton, toAutomaton } from './regex/automaton.ts';
import { parseRegex } from './regex/parse-regex.ts';
import { writeAutomaton } from './regex/write-automaton.ts';
import { GrammarError, type StructuralFormat, type StructuralTag } from './types.ts';

const maxDepth = 50;

/**
 * Adds the rules of a structural format: free text with tagged parts.
 * @returns the name of the root rule
 * @throws GrammarError `invalid_grammar`
 */
export function addStructuralFormat(builder: GrammarBuilder, format: StructuralFormat): string {
  return builder.add('format', new StructuralTranslator(builder).write(format, undefined, 0));
}

class StructuralTranslator {
  readonly #builder: GrammarBuilder;

  constructor(builder: GrammarBuilder) {
    this.#builder = builder;
  }

  /** @param ends texts that must follow, included in the result; undefined when nothing must follow */
  write(format: StructuralFormat, ends: readonly string[] | undefined, depth: number): Expression {
    if (depth > maxDepth) throw createInvalidError(`formats are nested deeper than ${maxDepth} levels`);
    const writeInner = (one: StructuralFormat, innerEnds: readonly string[] | undefined) =>
      this.write(one, innerEnds, depth + 1);
    const end = ends ? choice(...ends.map(text)) : empty;
    switch (format.type) {
      case 'const_string':
        return sequence(text(format.value), end);
      case 'json_schema':
        return sequence(
          rule(addJsonSchema(this.#builder, chooseEnforceableSchema(this.#builder, format))),
          end,
        );
      case 'grammar':
        return sequence(rule(addEbnfGrammar(this.#builder, format.grammar)), end);
      case 'regex':
        return sequence(parseRegex(format.pattern, 'whole'), end);
      case 'any_text':
        return this.#writeAnyText(format.excludes ?? [], ends);
      case 'or':
        return choice(...format.elements.map((one) => writeInner(one, ends)));
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
        return this.#writeTriggeredTags(format, ends, depth);
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
      if (!endsInFreeText(element)) {
        parts.push(this.write(element, undefined, depth + 1));
        continue;
      }
      if (next.type !== 'const_string' || next.value === '')
        throw createInvalidError(
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
  #tag(tag: StructuralTag, writtenPrefix: string, depth: number): Expression {
    const ends = typeof tag.end === 'string' ? [tag.end] : tag.end;
    if (ends.length === 0) throw createInvalidError(`the tag '${tag.begin}' has no end`);
    const isAmbiguous = ends.includes('') && endsInFreeText(tag.content);
    if (isAmbiguous)
      throw createInvalidError(`the tag '${tag.begin}' contains free text, so its end must not be empty`);
    return sequence(text(tag.begin.slice(writtenPrefix.length)), this.write(tag.content, ends, depth + 1));
  }

  #writeAnyText(excludes: readonly string[], ends: readonly string[] | undefined): Expression {
    const exclusions = excludes.filter((one) => one !== '');
    if (ends?.includes('')) return this.#writeAnyText(excludes, undefined);
    if (exclusions.length === 0) return this.#writeFreeText([], ends, true);
    const anything = repeat(set([[0, 0x10ffff]]), 0);
    const containing = (texts: readonly string[]) =>
      toAutomaton(sequence(anything, choice(...texts.map(text)), anything));
    let automaton = complementAutomaton(containing(exclusions));
    if (ends) {
      const untilEnd = toAutomaton(sequence(anything, choice(...ends.map(text))));
      const pastEnd = toAutomaton(
        sequence(anything, choice(...ends.map(text)), set([[0, 0x10ffff]]), anything),
      );
      automaton = intersectAutomata(automaton, intersectAutomata(untilEnd, complementAutomaton(pastEnd)));
    }
    return writeAutomaton(this.#builder, automaton, empty);
  }

  #writeTriggeredTags(
    format: StructuralFormat & { type: 'triggered_tags' },
    ends: readonly string[] | undefined,
    depth: number,
  ): Expression {
    const {
      triggers,
      tags,
      at_least_one: requiresTag = false,
      stop_after_first: stopsAfterFirst = false,
    } = format;
    for (const tag of tags) {
      if (triggers.filter((trigger) => tag.begin.startsWith(trigger)).length !== 1)
        throw createInvalidError(`the tag '${tag.begin}' must begin with exactly one of the triggers`);
    }
    const end = ends ? choice(...ends.map(text)) : empty;
    const first = choice(...tags.map((tag) => this.#tag(tag, '', depth)));
    if (requiresTag && stopsAfterFirst) return sequence(first, end);
    if (stopsAfterFirst && ends)
      throw createInvalidError("'stop_after_first' inside a tag requires 'at_least_one'");
    const triggerRules = triggers.map((trigger) => ({
      text: trigger,
      rule: this.#builder.add(
        'tags',
        choice(
          ...tags
            .filter(({ begin }) => begin.startsWith(trigger))
            .map((tag) => this.#tag(tag, trigger, depth)),
        ),
      ),
    }));
    const freeText = this.#writeFreeText(triggerRules, ends, !stopsAfterFirst);
    return requiresTag ? sequence(first, freeText) : freeText;
  }

  #writeFreeText(
    triggers: readonly { text: string; rule: string }[],
    ends: readonly string[] | undefined,
    repeats: boolean,
  ): Expression {
    const delimiters = [...triggers.map((one) => one.text), ...(ends ?? [])];
    for (const [index, delimiter] of delimiters.entries()) {
      if (delimiter === '') throw createInvalidError('a trigger or an end of free text must not be empty');
      const containing = delimiters.find((one, at) => at !== index && one.includes(delimiter));
      if (containing !== undefined)
        throw createInvalidError(
          `'${delimiter}' is part of '${containing}', so the two cannot be distinguished`,
        );
    }
    if (triggers.length === 0 && !ends) return repeat(set([[0, 0x10ffff]]), 0);
    return rule(this.#builder.add('free', { kind: 'free', triggers, stops: ends ?? [], repeats }));
  }
}

/** The schema of a format, or its `otherwise` schema when the grammar cannot enforce it. */
function chooseEnforceableSchema(
  builder: GrammarBuilder,
  format: StructuralFormat & { type: 'json_schema' },
): unknown {
  if (!('otherwise' in format)) return format.json_schema;
  try {
    const trial = builder.createTrial();
    const root = addJsonSchema(trial, format.json_schema);
    if (trial.print(root) !== undefined) return format.json_schema;
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
  }
  return format.otherwise;
}

function endsInFreeText(format: StructuralFormat): boolean {
  switch (format.type) {
    case 'any_text':
      return true;
    case 'triggered_tags':
      return !(format.at_least_one && format.stop_after_first);
    case 'sequence': {
      const last = format.elements.at(-1);
      return last !== undefined && endsInFreeText(last);
    }
    case 'or':
      return format.elements.some(endsInFreeText);
    case 'const_string':
    case 'json_schema':
    case 'grammar':
    case 'regex':
    case 'tag':
    case 'tags_with_separator':
      return false;
  }
}

const createInvalidError = (reason: string): GrammarError =>
  new GrammarError('invalid_grammar', `structural format: ${reason}`);
