import type { Argv, CommandModule } from 'yargs';
import { SHELLS, type Shell } from '../completion/shells.ts';

interface CompletionArguments {
  readonly shell: Shell;
}

export const completionCommand: CommandModule<object, CompletionArguments> = {
  command: 'completion <shell>',
  describe: 'Print the script with which a shell completes commands, options, application IDs and tasks',
  builder: (yargs): Argv<CompletionArguments> =>
    yargs
      .positional('shell', { choices: SHELLS, demandOption: true, describe: 'Shell for which to print the script' })
      .example('source <(tony-ts completion bash)', 'in ~/.bashrc')
      .example('source <(tony-ts completion zsh)', 'in ~/.zshrc, after compinit')
      .example('tony-ts completion fish > ~/.config/fish/completions/tony-ts.fish', 'once'),
  handler: async ({ shell }) => {
    const { completionScript } = await import('../completion/scripts.ts');
    process.stdout.write(await completionScript(shell));
  },
};
