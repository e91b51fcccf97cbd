import { TonyError } from '../conf/errors.ts';

export interface RemoteFailure {
  /** What was tried, e.g. "allocate at rm1:8030". */
  readonly action: string;
  readonly exceptionClassName: string;
  /** As it came: the message and, below it, Java's stack. */
  readonly errorMessage: string;
  /** The connection went with it, not only this call. */
  readonly fatal: boolean;
}

/** An exception that a Hadoop daemon answered with. */
export class RemoteError extends TonyError {
  /** In full, e.g. org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException. */
  readonly exceptionClassName: string;
  readonly fatal: boolean;
  /** The exception's own words, the stack left out. */
  readonly remoteMessage: string;

  constructor(failure: RemoteFailure) {
    const remoteMessage = withoutStack(failure.errorMessage);
    const name = simpleName(failure.exceptionClassName);
    super('RPC_FAILED', `${failure.action} failed: ${remoteMessage === '' ? name : `${remoteMessage} (${name})`}`);
    this.exceptionClassName = failure.exceptionClassName;
    this.fatal = failure.fatal;
    this.remoteMessage = remoteMessage;
  }

  /** By the class's simple name, packages and outer classes left out: InvalidToken for ...SecretManager$InvalidToken. */
  is(...names: readonly string[]): boolean {
    return names.includes(simpleName(this.exceptionClassName));
  }
}

function simpleName(className: string): string {
  return className.slice(Math.max(className.lastIndexOf('.'), className.lastIndexOf('$')) + 1) || 'unknown exception';
}

function withoutStack(text: string): string {
  return (
    text
      .replace(/^[\s\r\n]+/, '')
      .split(/\r?\n/, 1)[0]
      ?.trim() ?? ''
  );
}
