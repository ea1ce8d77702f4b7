/** Parse stage of the gate: the diagnostics of the WGSL compiler. */
import type { Finding } from '../types.ts';
import type { SourceLocation } from '../wgsl/tokens.ts';
import { createFinding } from './codes.ts';

const maxBytes = 256 * 1024;
const maxMessages = 200;

/** Returns the module if no finding is an error. Causes no uncaptured device errors. */
export async function parseStage(
  device: GPUDevice,
  source: string,
): Promise<{ module?: GPUShaderModule; findings: Finding[] }> {
  const rejected = rejectSource(source);
  if (rejected) return { findings: [rejected] };

  device.pushErrorScope('internal');
  device.pushErrorScope('validation');
  const module = device.createShaderModule({ code: source });
  const scopes = [device.popErrorScope(), device.popErrorScope()];
  const { messages } = await module.getCompilationInfo();
  const [validation, internal] = await Promise.all(scopes);

  const findings = messages.slice(0, maxMessages).map((message, index) => {
    const precedingMessage = messages.slice(0, index).findLast(({ type }) => type !== 'info');
    return findingOf(message, message.type === 'info' ? precedingMessage : undefined);
  });
  if (messages.length > maxMessages) {
    const omitted = messages.length - maxMessages;
    findings.push(createFinding('more_messages', 'info', `${omitted} more messages are not listed`));
  }
  const hasError = messages.some(({ type }) => type === 'error');
  const error = validation ?? internal;
  if (error && !hasError) findings.push(createFinding('wgsl_error', 'error', error.message.trim()));
  return hasError || error ? { findings } : { module, findings };
}

function rejectSource(source: string): Finding | undefined {
  if (source.trim() === '') {
    return createFinding(
      'empty_source',
      'error',
      'expected WGSL with a compute entry point, got an empty source',
    );
  }
  const bytes = new TextEncoder().encode(source).length;
  if (bytes > maxBytes) {
    return createFinding('source_too_long', 'error', `expected at most ${maxBytes} bytes, got ${bytes}`);
  }
  const nul = source.indexOf('\0');
  if (nul < 0) return undefined;
  const before = source.slice(0, nul).split(/\r\n|[\n\v\f\r\u0085\u2028\u2029]/);
  const location = { line: before.length, column: (before.at(-1) ?? '').length + 1, length: 1 };
  return createFinding('nul_character', 'error', 'expected text, got a NUL character', location);
}

const kinds = {
  error: ['wgsl_error', 'error'],
  warning: ['wgsl_warning', 'warning'],
  info: ['wgsl_note', 'info'],
} as const;

/** @param precedingMessage the message that a note belongs to; its text refers to it, because findings can be reordered */
function findingOf(
  message: GPUCompilationMessage,
  precedingMessage: GPUCompilationMessage | undefined,
): Finding {
  const [code, severity] = kinds[message.type];
  const text = message.message.trim();
  const note =
    precedingMessage && precedingMessage.lineNum > 0
      ? `(to ${precedingMessage.lineNum}:${precedingMessage.linePos}) ${text}`
      : text;
  if (message.lineNum === 0) return createFinding(code, severity, note);
  const { lineNum: line, linePos: column, length } = message;
  const location: SourceLocation = { line, column, length: Math.max(1, length) };
  return createFinding(code, severity, note, location);
}
