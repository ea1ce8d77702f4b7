/**
 * Part of `npm run lint`: fails on words that were replaced by the field's terms (docs/glossary.md), so that they do not
 * come back. Add a word here when a name is retired.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Pattern, what to write instead, and the folders that it applies to (default: everywhere). */
const retired = [
  [/\b(Turnstile|Hall)\b/, 'model swap gate, model slot'],
  [/\b(Interludes?|interlude)\b/, 'exclusive section'],
  [/\b(Parking|parked)\b/, 'reader backpressure, stalled reader'],
  [/\brelieve\b/, 'preempt, break a deadlock'],
  [/\b(nowhere|aside):/, 'dummy write, scratch', /^(src|kernels)\//],
  [/\b(AnswersSaid|Telling|Told)\b/, 'span, tracer, transcript'],
  [/\bUnaskable\b/, 'untranslatable'],
  [/\bunwell\b/, 'unhealthy'],
  [/\bPurchase\b/, 'hold'],
  [/\bleftBehind\b/, 'orphaned holds'],
  [/\bPlanner/, 'chat model (of an agent)', /^(src|test)\//],
  [/\bmost(?!ly\b)[A-Z]\w*/, 'max...'],
  [/\bleast[A-Z]\w*/, 'min...'],
  [/\b(patience(Ms|Secs)?)\b/, 'timeoutMs, retryDelayMs'],
  [/\bfew\(/, 'summarizeList('],
  [/^\s*(\/\*\*|\*) Of /, 'a comment that says what the thing is'],
  [/\bthe house('s)?\b/, "the operator, the gateway's own account"],
  [/\bguess(es|ed|ing)? ahead\b/, 'drafts, speculative decoding'],
  [/\bbound answers?\b/i, 'constrained output'],
  [
    /\b(said|told|asked|heart)\b(?=[\s?]*[:(=])/,
    'a name that says what it is',
    /^(src|web\/(console|demo|engine))\//,
  ],
];

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
  encoding: 'utf8',
  maxBuffer: 2 ** 26,
})
  .split('\n')
  .filter((file) => /\.(ts|tsx|mjs|wgsl|md|toml|sh|html)$/.test(file))
  .filter(
    (file) =>
      !/^(CHANGELOG\.md|scripts\/retired-words\.mjs|test\/fixtures\/|web\/console\/api\/|bench\/results\/)/.test(
        file,
      ),
  );

const findings = [];
for (const file of files) {
  let text;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    continue; // Deleted, and not committed yet.
  }
  for (const [at, line] of text.split('\n').entries()) {
    for (const [pattern, instead, where] of retired) {
      if (where && !where.test(file)) continue;
      const found = pattern.exec(line);
      if (found) findings.push(`${file}:${at + 1}: '${found[0].trim()}' is retired; write: ${instead}`);
    }
  }
}
for (const finding of findings) process.stderr.write(`${finding}\n`);
if (findings.length > 0) {
  process.stderr.write(`${findings.length} retired words (scripts/retired-words.mjs, docs/glossary.md)\n`);
  process.exit(1);
}
