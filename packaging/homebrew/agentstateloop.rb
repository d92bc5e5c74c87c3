# packaging/recipes fills in the words between @.
class Agentstateloop < Formula
  desc "AI agent that sleeps in cron and wakes for its operator"
  homepage "@HOMEPAGE@"
  url "@HOMEPAGE@/releases/download/v@VERSION@/agentstateloop-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    ldflags = "-s -w -funcalign=8 -X main.version=v#{version} -X main.commit=@COMMIT@ -X main.date=@DATE@"
    system "go", "build", *std_go_args(ldflags: ldflags, tags: "urfave_cli_no_docs,nethttpomithttp2")
    system bin/"agentstateloop", "man", man
    generate_completions_from_executable(bin/"agentstateloop", "completion")
    pkgshare.install "agent.toml.example"
  end

  service do
    run [opt_bin/"agentstateloop", "listen", "#{Dir.home}/.config/agentstateloop"]
    keep_alive true
  end

  def caveats
    <<~EOS
      Start with `agentstateloop init`. Before you remove the formula, run
      `agentstateloop uninstall --all`: otherwise cron keeps starting the program.
    EOS
  end

  test do
    assert_match "version v#{version} ", shell_output("#{bin}/agentstateloop --version")
    system bin/"agentstateloop", "demo"
  end
end
