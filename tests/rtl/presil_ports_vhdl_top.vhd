-- SPDX-License-Identifier: Apache-2.0
-- A chip in VHDL-2008, for ghdl's synthesis: APB3 without wait states, WORD * 8 bits of AXI4 without IDs, and the
-- registers and the copy engine of presil_ports_core.sv, whose head says what they are. Start to ARVALID: one cycle.
-- Reset: rst_n, synchronous, all but the buffer.
library ieee;
use ieee.std_logic_1164.all;
use ieee.numeric_std.all;

entity presil_ports_vhdl_top is
    generic (WORD : positive := 8);  -- bytes of a beat
    port (
        clk           : in  std_logic;
        rst_n         : in  std_logic;
        done_irq      : out std_logic;
        psel          : in  std_logic;
        penable       : in  std_logic;
        pwrite        : in  std_logic;
        paddr         : in  std_logic_vector(15 downto 0);
        pwdata        : in  std_logic_vector(31 downto 0);
        prdata        : out std_logic_vector(31 downto 0);
        pslverr       : out std_logic;
        m_axi_araddr  : out std_logic_vector(31 downto 0);
        m_axi_arlen   : out std_logic_vector(7 downto 0);
        m_axi_arvalid : out std_logic;
        m_axi_arready : in  std_logic;
        m_axi_rdata   : in  std_logic_vector(8 * WORD - 1 downto 0);
        m_axi_rvalid  : in  std_logic;
        m_axi_awaddr  : out std_logic_vector(31 downto 0);
        m_axi_awlen   : out std_logic_vector(7 downto 0);
        m_axi_awvalid : out std_logic;
        m_axi_awready : in  std_logic;
        m_axi_wdata   : out std_logic_vector(8 * WORD - 1 downto 0);
        m_axi_wlast   : out std_logic;
        m_axi_wvalid  : out std_logic;
        m_axi_wready  : in  std_logic;
        m_axi_bvalid  : in  std_logic
    );
end entity;

architecture rtl of presil_ports_vhdl_top is
    type state_t is (idle, ar, r, aw, w, b);
    type buffer_t is array (0 to 15) of std_logic_vector(8 * WORD - 1 downto 0);
    signal state : state_t;
    signal data : buffer_t;
    signal src, dst, bursts, count, scratch : unsigned(31 downto 0);
    signal beats : unsigned(4 downto 0);
    signal last, at : unsigned(3 downto 0);
    signal done, busy : std_logic;
    signal offset : integer range 0 to 65535;
begin
    offset <= to_integer(unsigned(paddr));
    busy <= '0' when state = idle else '1';
    last <= resize(beats - 1, 4);
    done_irq <= done;
    pslverr <= '1' when offset >= 16#e000# else '0';
    m_axi_araddr <= std_logic_vector(src);
    m_axi_awaddr <= std_logic_vector(dst);
    m_axi_arlen <= "0000" & std_logic_vector(last);
    m_axi_awlen <= "0000" & std_logic_vector(last);
    m_axi_arvalid <= '1' when state = ar else '0';
    m_axi_awvalid <= '1' when state = aw else '0';
    m_axi_wvalid <= '1' when state = w else '0';
    m_axi_wlast <= '1' when at = last else '0';
    m_axi_wdata <= data(to_integer(at));

    with offset select prdata <=
        x"504f5254" when 16#0000#,
        std_logic_vector(to_unsigned(WORD, 32)) when 16#0004#,
        std_logic_vector(src) when 16#0008#,
        std_logic_vector(dst) when 16#000c#,
        std_logic_vector(resize(beats, 32)) when 16#0010#,
        std_logic_vector(bursts) when 16#0014#,
        (0 => busy, 1 => done, others => '0') when 16#001c#,
        std_logic_vector(count) when 16#0020#,
        std_logic_vector(scratch) when 16#dff0#,
        x"00000000" when others;

    process (clk)
    begin
        if rising_edge(clk) then
            if psel = '1' and penable = '1' and pwrite = '1' then
                case offset is
                    when 16#0008# => src <= unsigned(pwdata);
                    when 16#000c# => dst <= unsigned(pwdata);
                    when 16#0010# => beats <= unsigned(pwdata(4 downto 0));
                    when 16#0014# => bursts <= unsigned(pwdata);
                    when 16#0018# => if pwdata(0) = '1' then state <= ar; count <= (others => '0'); end if;
                    when 16#001c# => if pwdata(1) = '1' then done <= '0'; end if;
                    when 16#dff0# => scratch <= unsigned(pwdata);
                    when others => null;
                end case;
            end if;
            case state is
                when ar => if m_axi_arready = '1' then state <= r; end if;
                when r =>
                    if m_axi_rvalid = '1' then
                        data(to_integer(at)) <= m_axi_rdata;
                        at <= at + 1;
                        if at = last then at <= "0000"; state <= aw; end if;
                    end if;
                when aw => if m_axi_awready = '1' then state <= w; end if;
                when w =>
                    if m_axi_wready = '1' then
                        at <= at + 1;
                        if at = last then at <= "0000"; state <= b; end if;
                    end if;
                when b =>
                    if m_axi_bvalid = '1' then
                        src <= src + resize(beats * WORD, 32);
                        dst <= dst + resize(beats * WORD, 32);
                        count <= count + 1;
                        state <= ar;
                        if count + 1 = bursts then state <= idle; done <= '1'; end if;
                    end if;
                when others => null;
            end case;
            if rst_n = '0' then
                state <= idle;
                done <= '0';
                at <= (others => '0');
                beats <= (others => '0');
                src <= (others => '0');
                dst <= (others => '0');
                bursts <= (others => '0');
                count <= (others => '0');
                scratch <= x"12345678";
            end if;
        end if;
    end process;
end architecture;
